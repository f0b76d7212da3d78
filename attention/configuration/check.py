"""Checks of a whole config before anything else starts: ranges, choices, and what must agree."""

from __future__ import annotations

import math
from typing import Any

from ml_collections import ConfigDict

from attention.configuration import durations
from attention.configuration.attention_sections import attention_sections, own_options
from attention.configuration.decoding import check_decoding
from attention.configuration.fields import is_data_path, leaves
from attention.configuration.overrides import EXCLUSIVE
from attention.configuration.ranges import MAY_BE_NONE, RANGES, Range
from attention.errors import UserError, did_you_mean

CHOICES = {
    "dtype": ("float32", "bfloat16"),
    "matmul_precision": ("default", "high", "highest"),
    "parallelism": ("jit", "pmap"),
    "optimizer.schedule": ("cosine", "inverse_sqrt", "inverse_sqrt_cooldown", "constant"),
    "model.architecture": ("transformer", "recurrent"),
    "model.norm": ("pre", "post"),
    "model.activation": ("relu", "gelu", "silu"),
    "model.position_merge": ("add", "concat"),
    "model.direction": ("bidirectional", "causal", "two_pass"),
    "model.pooling": ("mean", "max", "first", "attention"),
    "data.pack": ("auto", "always", "never"),
    "data.tag": ("upos", "xpos"),
    "tracking.backend": ("none", "wandb", "mlflow", "trackio"),
}


def check(config: ConfigDict) -> None:
    """Raises UserError naming the key, its value and what is allowed, for the first wrong value.

    Keys that a task does not have are not missed.
    """
    values = dict(leaves(config))
    for key, value in values.items():
        _check_value(key, value)
    for first, second in EXCLUSIVE:
        _check_exclusive(values, first, second)
    _check_sizes(values)
    _check_paths(values)
    check_decoding(values)
    if "data.tokenizer" in values:
        _check_tokenizer(values)
    if "model.position" in values:
        _check_position(values)
    for key, section in attention_sections(config):
        _check_variant(key, section, values)
    _check_packing(config, values)


def _check_value(key: str, value: Any) -> None:
    if durations.is_duration(key):
        durations.canonical(value, key=key)
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{key}={value}: expected a finite number")
    if key in CHOICES and value not in CHOICES[key]:
        allowed = CHOICES[key]
        hint = did_you_mean(str(value), allowed)
        raise UserError(f"{key}={value!r}: expected one of {', '.join(allowed)}{hint}")
    if key in RANGES and not (value is None and key in MAY_BE_NONE):
        _check_range(key, value, RANGES[key])


def _check_range(key: str, value: Any, allowed: Range) -> None:
    number = value
    if durations.is_duration(key):  # only whether it is zero matters
        number = durations.steps(value, total_steps=10**9, steps_per_epoch=10**9)
    types = (int, float) if allowed.type is float else (int,)
    if isinstance(number, bool) or not isinstance(number, types) or not allowed.holds(number):
        raise UserError(f"{key}={value!r}: expected {allowed.words}")


def _check_exclusive(values: dict[str, Any], first: str, second: str) -> None:
    if first not in values and second not in values:
        return
    one, other = values.get(first), values.get(second)
    if one is not None and other is not None:
        raise UserError(f"{first}={one} and {second}={other} are both set: set one of them to None")
    if one is None and other is None:
        raise UserError(f"neither {first} nor {second} is set: set one of them")


def _check_sizes(values: dict[str, Any]) -> None:
    dim, heads = values.get("model.dim"), values.get("model.num_heads")
    if dim and heads and dim % heads:
        raise UserError(f"model.dim={dim} must be a multiple of model.num_heads={heads}")
    tokens, length = values.get("batch_tokens"), values.get("data.max_length")
    if tokens and length and tokens < length:
        raise UserError(
            f"batch_tokens={tokens} is less than data.max_length={length}: a batch holds at least "
            "one row of that length; raise batch_tokens or lower data.max_length"
        )
    if values.get("model.use_words") is False and values.get("model.use_chars") is False:
        raise UserError("model.use_words and model.use_chars are both false: set one to true")


def _check_paths(values: dict[str, Any]) -> None:
    """Refuses paths of files that the chosen data set would never read."""
    dataset = values.get("dataset", "files")
    for key, value in values.items():
        if is_data_path(key) and value is not None and dataset != "files":
            raise UserError(
                f"{key}={value!r} is read only with dataset=files, not with dataset={dataset}: "
                f"--config=configs/{values.get('task', 'x')}.py:dataset=files"
            )


def _check_tokenizer(values: dict[str, Any]) -> None:
    from attention.data.tokenizers import text

    name, alpha = values["data.tokenizer"], values.get("data.subword_regularisation")
    text.get(name)
    if alpha and name != "sentencepiece":
        raise UserError(
            f"data.subword_regularisation={alpha} is read only with data.tokenizer=sentencepiece: "
            f"{name} has one segmentation of a text"
        )


def _check_position(values: dict[str, Any]) -> None:
    """Refuses wrong options of the chosen scheme, and options of one that is not chosen."""
    from attention import positions  # imports JAX, so after the checks above

    name = values["model.position"]
    positions.get(name)
    prefix = "model.positions."
    options: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if key.startswith(prefix):
            scheme, _, option = key.removeprefix(prefix).partition(".")
            options.setdefault(scheme, {})[option] = value
    for scheme, own in options.items():
        config = positions.get(scheme).Config(**own)
        if scheme != name and config != positions.get(scheme).Config():
            changed = [k for k, v in own.items() if v != getattr(positions.get(scheme).Config(), k)]
            raise UserError(
                f"{prefix}{scheme}.{changed[0]}={own[changed[0]]!r} is read only with "
                f"model.position={scheme}, not with {name}"
            )
    if values.get("model.position_merge", "add") != "add" and positions.place(name) != "input":
        at_input = ", ".join(one for one in positions.names() if positions.place(one) == "input")
        raise UserError(
            f"model.position_merge={values['model.position_merge']!r} merges positions into the "
            f"model's input, where model.position={name} has nothing: set it to add, or "
            f"model.position to one of {at_input}"
        )


def _check_variant(key: str, section: Any, values: dict[str, Any]) -> None:
    """Refuses a variant that cannot do what its place in the model asks for, or wrong options."""
    from attention import variants  # imports JAX, so after the checks above

    name, own = section["variant"], own_options(section)
    variant = variants.get(name)
    try:
        variant.Config(**own)
    except (ValueError, TypeError) as error:
        raise UserError(f"{key} (variant={name}): {_of_place(key, error)}") from error
    needed, who = _needed_modes(key, values)
    for mode in needed:
        if mode not in variant.MODES:
            # Computing each step anew asks for the other modes alone.
            hint = ", or set decode.use_cache=false" if mode == "decode" else ""
            raise UserError(
                f"{who} needs a variant with the mode {mode!r}; "
                f"variant={name} has {', '.join(sorted(variant.MODES))}{hint}"
            )
    has_position = "model.position" in values and "cross" not in needed
    if has_position:
        variants.check_position(name, values["model.position"])
    if "model.dim" in values and "model.num_heads" in values:
        position = _inner_position(values) if has_position else None
        try:
            _check_layer(
                *(values, name, own),
                causal="causal" in needed,
                crosses="cross" in needed,
                position=position,
            )
        except UserError as error:
            raise UserError(_of_place(key, error)) from error


def _of_place(key: str, error: Exception) -> str:
    """Returns what a variant says of its options, which does not know in which place it stands."""
    return str(error).replace("model.attention.", f"{key}.")


def _needed_modes(key: str, values: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """Returns the modes that a place in the model asks for, and how to say who asks."""
    if key == "model.cross_attention":
        return ("cross",), key
    if key == "model.decoder_attention":
        cached = values.get("decode.use_cache", True)
        return (("causal", "decode") if cached else ("causal",)), key
    direction = values.get("model.direction", "bidirectional")
    return ("causal" if direction == "two_pass" else direction,), f"model.direction={direction!r}"


def _check_layer(
    values: dict[str, Any],
    name: str,
    own: dict[str, Any],
    *,
    causal: bool,
    crosses: bool,
    position: Any,
) -> None:
    """Builds a layer without computing anything: what does not fit together is refused here."""
    from flax import nnx

    from attention import variants
    from attention.core.layer import AttentionLayer

    def make() -> nnx.Module:
        layer = variants.make(
            name,
            dim=values["model.dim"],
            num_heads=values["model.num_heads"],
            causal=causal,
            max_length=values.get("data.max_length"),
            position=position,
            rngs=nnx.Rngs(0),
            **own,
        )
        if crosses and isinstance(layer, AttentionLayer):
            layer.check_crosses()
        return layer

    nnx.eval_shape(make)


def _inner_position(values: dict[str, Any]) -> Any:
    """The scheme that acts inside attention, if the config has such a one."""
    from attention import positions

    position = values["model.position"]
    if positions.place(position) != "attention":
        return None
    prefix = f"model.positions.{position}."
    options = {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
    return positions.get(position).Config(**options)


def _check_packing(config: ConfigDict, values: dict[str, Any]) -> None:
    chosen = [(one["variant"], own_options(one)) for _, one in attention_sections(config)]
    if not chosen:
        return
    from attention import variants  # imports JAX

    alone = [name for name, _ in chosen if "packed" not in variants.get(name).MODES]
    packs, length = values.get("data.pack"), values.get("data.max_length")
    if packs == "always" and alone:
        raise UserError(
            f"data.pack='always' needs a variant with the mode 'packed'; variant={alone[0]} has "
            f"{', '.join(sorted(variants.get(alone[0]).MODES))}: set data.pack to auto or never"
        )
    if alone or not length or packs not in ("always", "auto"):
        return
    for name, own in chosen:
        multiple = variants.pack_multiple(name, own)
        if length % multiple:
            raise UserError(
                f"data.max_length={length} must be a multiple of {multiple}: packed, "
                f"variant={name} begins each example at such a position; set data.max_length to "
                f"{-(-length // multiple) * multiple}, or data.pack to never"
            )
