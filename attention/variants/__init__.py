"""The attention variants, one file each; the file name is what `variant=` accepts.

A file has `MODES`, a frozen dataclass `Config` with the variant's own options, the pure function
`attend` (and `weights` where it has any) on arrays [b t n h], and
`make(config, settings, *, rngs)`, which builds its layer. `PERMUTATION_EQUIVARIANT = True` claims
that without positions the order of a bidirectional layer's inputs is the order of its outputs, and
nothing else. `HAS_KINKS = True` says that scores are not smooth, which tests that compare slopes
must know. `POSITIONS` are the schemes inside attention that mean something to the variant.
`Config` fields may say in their `metadata` what tests should try: see `core.exact.ExactConfig`.
"""

import dataclasses
from types import ModuleType
from typing import Any

import jax.numpy as jnp
from flax import nnx

from attention import found_by_name, positions
from attention.core.settings import LayerSettings, as_dtype, split_dim
from attention.errors import UserError, did_you_mean

KINDS = ("sequence", "grid", "graph")


def names(kind: str = "sequence") -> tuple[str, ...]:
    """Returns what `variant=` accepts; those of a grid of pixels or of a graph by their kind."""
    if kind not in KINDS:
        raise UserError(f"{kind=} is not one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    return found_by_name.names_in(__path__) if kind == "sequence" else ()


def get(name: str) -> ModuleType:
    """Returns the module of a variant; an unknown name raises UserError."""
    return found_by_name.load(__name__, name, names(), key="variant")


def make(
    name: str,
    *,
    dim: int,
    num_heads: int,
    causal: bool = False,
    context_dim: int | None = None,
    head_dim: int | None = None,
    dropout_rate: float = 0.0,
    dtype: str | type | jnp.dtype = "float32",
    max_length: int | None = None,
    layer_index: int = 0,
    position: Any = None,
    rngs: nnx.Rngs,
    **own_config: Any,
) -> nnx.Module:
    """Makes an attention layer.

    Args:
        name: one of `names()`.
        dim, num_heads, …, position: see `LayerSettings`; context_dim=None means dim, and
            head_dim=None means dim / num_heads.
        rngs: for the initial parameters.
        **own_config: fields of the variant's `Config`.

    Raises:
        UserError: an unknown name or option, a value of a wrong type or without effect, a causal
            layer of a variant that has no such mode, or sizes that do not fit.
    """
    variant = get(name)
    if causal and "causal" not in variant.MODES:
        modes = ", ".join(sorted(variant.MODES))
        raise UserError(f"variant {name!r} cannot be causal (its modes: {modes})")
    cross = "cross" in variant.MODES and not causal
    if context_dim is not None and context_dim != dim and not cross:
        without = "is causal" if causal else f"of variant {name!r} has no such mode"
        raise UserError(
            f"{context_dim=} is not {dim=}, and is read in cross-attention only, where a layer "
            f"that {without} takes no part: leave it out"
        )
    check_position(name, position)
    settings = LayerSettings(
        dim=dim,
        num_heads=num_heads,
        head_dim=split_dim(dim, num_heads) if head_dim is None else head_dim,
        context_dim=dim if context_dim is None else context_dim,
        causal=causal,
        dropout_rate=dropout_rate,
        dtype=as_dtype(dtype),
        max_length=max_length,
        layer_index=layer_index,
        position=position,
    )
    return variant.make(_config(name, variant.Config, own_config), settings, rngs=rngs)


def pack_multiple(name: str, own_config: dict[str, Any]) -> int:
    """Returns the multiple of positions at which an example in a packed row may begin.

    Block variants count blocks from where an example begins; their `Config` says how long one is.
    """
    return getattr(get(name).Config(**own_config), "pack_multiple", 1)


def check_position(name: str, position: Any) -> None:
    """Raises UserError for a position scheme inside attention that the variant has no use for."""
    scheme, useful = positions.name_of(position), getattr(get(name), "POSITIONS", ())
    if positions.place(scheme) == "attention" and scheme not in useful:
        others = [other for other in positions.names() if positions.place(other) != "attention"]
        raise UserError(
            f"model.position={scheme!r} acts inside attention, where variant={name} has no use for "
            f"it: choose one of {', '.join((*useful, *others))}"
        )


def _config(name: str, config_class: type, own_config: dict[str, Any]):
    allowed = [field.name for field in dataclasses.fields(config_class)]
    for key in own_config:
        if key not in allowed:
            raise UserError(
                f"variant {name!r} has no option {key!r}{did_you_mean(key, allowed)}: "
                f"model.attention of this variant has {', '.join(allowed) or 'no options'}"
            )
    return config_class(**own_config)
