"""Checks of a whole config."""

from __future__ import annotations

from typing import Any

import pytest
from ml_collections import ConfigDict
from support.made_up_variants import VARIANTS

from attention.configuration import check, load_config
from attention.configuration.fields import leaves, section_of
from attention.errors import UserError

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("made_up_variants")]

SPEC = "configs/pos_tagging.py:size=tiny"


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("dtype", "float16", r"float32, bfloat16 \(did you mean 'bfloat16'\?\)"),
        ("matmul_precision", "hi", "default, high, highest"),
        ("parallelism", "pjit", "jit, pmap"),
        ("optimizer.schedule", "linear", "cosine, inverse_sqrt, inverse_sqrt_cooldown, constant"),
        ("model.norm", "Pre", r"pre, post \(did you mean 'pre'\?\)"),
        ("model.activation", "swish", "relu, gelu, silu"),
        ("model.direction", "both", "bidirectional, causal"),
        ("data.pack", "yes", "auto, always, never"),
        ("data.tag", "pos", r"upos, xpos \(did you mean"),
    ],
)
def test_a_choice_names_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(UserError, match=f"^{key}='{value}': expected one of {allowed}"):
        load_config(SPEC, {key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", -1),
        ("seed", 2**32),
        ("batch_size", 0),
        ("batch_tokens", -5),
        ("eval_batch_size", 0),
        ("train_steps", 0),
        ("train_epochs", 0.0),
        ("log_every_steps", 0),
        ("eval_every_steps", "0%"),
        ("early_stopping_evaluations", -1),
        ("label_smoothing", 1.0),
        ("optimizer.learning_rate", -1e-9),
        ("optimizer.weight_decay", -0.1),
        ("optimizer.clip_norm", 0.0),
        ("optimizer.accumulation_steps", 0),
        ("optimizer.b1", 1.0),
        ("optimizer.b2", -0.1),
        ("model.dim", 0),
        ("model.num_layers", 0),
        ("model.num_heads", -4),
        ("model.mlp_dim", 0),
        ("model.dropout_rate", 1.0),
        ("model.word_dropout_rate", -0.1),
        ("model.char_dim", 0),
        ("data.max_length", 0),
        ("data.order_seed", -1),
        ("data.min_count", 0),
        ("data.max_word_length", 1),
        ("data.num_threads", -1),
    ],
)
def test_a_number_out_of_range_is_named(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"^{key}={value!r}: expected a"):
        load_config(SPEC, {key: value})


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_number_that_is_not_finite_is_named(value: str) -> None:
    with pytest.raises(UserError, match=f"^optimizer.learning_rate={value}: expected a finite"):
        load_config(SPEC, [("optimizer.learning_rate", value)])


@pytest.mark.parametrize(
    "overrides",
    [
        {"seed": 0, "optimizer.learning_rate": 0.0, "model.dropout_rate": 0.0},
        {"optimizer.warmup_steps": 0, "data.num_threads": 0, "label_smoothing": 0.0},
        {"data.order_seed": None, "batch_size": 1},
        {"batch_tokens": 128, "data.max_length": 128},
    ],
)
def test_the_ends_of_the_ranges_are_allowed(overrides: dict[str, Any]) -> None:
    values = dict(leaves(load_config(SPEC, overrides)))
    assert {key: values[key] for key in overrides} == overrides


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model.num_heads": 3}, "model.dim=64 must be a multiple of model.num_heads=3"),
        ({"batch_tokens": 100}, "batch_tokens=100 is less than data.max_length=128"),
        ({"model.use_words": False, "model.use_chars": False}, "use_words and .* both false"),
        ({"batch_tokens": None}, "neither batch_size nor batch_tokens is set"),
        ({"train_epochs": None}, "neither train_steps nor train_epochs is set"),
        ({"data.train_path": "a.conllu"}, "data.train_path='a.conllu' is read only with dataset="),
        ({"data.pack": "never", "model.direction": "causal", "seed": -1}, "^seed=-1"),
    ],
)
def test_what_must_agree(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_config(SPEC, overrides)


def test_paths_are_allowed_where_they_are_read() -> None:
    config = load_config(f"{SPEC},dataset=files", {"data.train_path": "/a.conllu"})
    assert config.data.train_path == "/a.conllu"


def test_both_of_two_exclusive_keys_set_in_a_config_file_are_refused(config: ConfigDict) -> None:
    config.batch_size = 8
    with pytest.raises(UserError, match="batch_size=8 and batch_tokens=2048 are both set"):
        check(config)


def _with_variant(name: str, **fields: Any) -> ConfigDict:
    config = ConfigDict({"model": {"attention": {"variant": name}}, "data": {"pack": "auto"}})
    config.model.attention.update(section_of(VARIANTS[name].Config))
    config.update_from_flattened_dict(fields)
    return config


def test_a_variant_without_the_direction_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"direction='bidirectional' needs .*variant=recurrent has"):
        check(_with_variant("recurrent"))
    config = _with_variant("recurrent")
    config.model.direction = "causal"
    check(config)


def _with_three(**variants: str) -> ConfigDict:
    """Encoder, decoder and cross-attention."""
    config = _with_variant(variants.get("attention", "scaled_dot"))
    for place in ("decoder_attention", "cross_attention"):
        name = variants.get(place, "scaled_dot")
        config.model[place] = section_of(VARIANTS[name].Config)
        config.model[place].variant = name
    return config


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ({"attention": "recurrent"}, "model.direction='bidirectional' .* variant=recurrent has"),
        ({"decoder_attention": "mixing"}, "model.decoder_attention needs .*'causal'; .*=mixing"),
        ({"decoder_attention": "recurrent"}, "model.decoder_attention needs .*'decode'; .*=rec"),
        ({"cross_attention": "mixing"}, "model.cross_attention needs .*'cross'; variant=mixing"),
    ],
)
def test_each_place_takes_a_variant_that_can_stand_there(variants, message) -> None:
    check(_with_three())
    with pytest.raises(UserError, match=message):
        check(_with_three(**variants))


def test_a_decoder_that_keeps_nothing_needs_no_mode_for_it() -> None:
    config = _with_three(decoder_attention="recurrent")
    config.decode = ConfigDict({"use_cache": False})
    check(config)


def test_options_are_refused_by_the_place_they_are_of() -> None:
    config = _with_three(decoder_attention="recurrent")
    config.model.decoder_attention.kernel = "tanh"
    with pytest.raises(UserError, match=r"model\.decoder_attention \(variant=recurrent\): kernel"):
        check(config)


def test_packing_one_variant_that_cannot_is_refused_by_name() -> None:
    config = _with_three(attention="mixing")
    check(config)
    config.data.pack = "always"
    with pytest.raises(UserError, match=r"data\.pack='always' .*variant=mixing has bidirectional"):
        check(config)


def test_packing_a_variant_that_cannot_is_refused_by_name() -> None:
    check(_with_variant("mixing"))
    with pytest.raises(UserError, match=r"data\.pack='always' .*variant=mixing has bidirectional"):
        check(_with_variant("mixing", **{"data.pack": "always"}))


@pytest.mark.parametrize("pack", ["auto", "always"])
def test_packed_rows_are_whole_blocks_of_the_variant(
    pack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VARIANTS["scaled_dot"].Config, "pack_multiple", 48, raising=False)
    with pytest.raises(UserError) as caught:
        load_config(SPEC, {"data.pack": pack})
    assert str(caught.value).startswith("data.max_length=128 must be a multiple of 48:")
    assert "variant=scaled_dot" in str(caught.value)
    assert "data.max_length to 144" in str(caught.value)
    load_config(SPEC, {"data.pack": pack, "data.max_length": 96})
    load_config(SPEC, {"data.pack": "never"})
    monkeypatch.setattr(VARIANTS["mixing"].Config, "pack_multiple", 48, raising=False)
    load_config("configs/pos_tagging.py:variant=mixing")  # it does not pack
    # Nor does a model of which one part does not.
    config = _with_three(attention="mixing")
    config.data.max_length = 128
    check(config)


def test_the_checks_of_a_variants_own_options_count() -> None:
    config = _with_variant("recurrent")
    config.model.direction = "causal"
    config.model.attention.kernel = "tanh"
    with pytest.raises(UserError, match=r"model\.attention \(variant=recurrent\): kernel='tanh'"):
        check(config)


def test_positions_are_those_there_are() -> None:
    with pytest.raises(UserError, match=r"model\.position='rop'.*did you mean 'rope'"):
        load_config(SPEC, {"model.position": "rop"})


TRANSLATION = "configs/translation.py:size=tiny"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"decode.temperature": 0.8}, r"temperature=0\.8 draws .* decode\.beam_size=4 searches"),
        ({"decode.top_k": 5}, r"decode\.top_k=5 is read only where tokens are drawn"),
        ({"decode.top_p": 0.9}, r"decode\.top_p=0\.9 is read only"),
        ({"decode.seed": 3}, r"decode\.seed=3 is read only"),
        ({"decode.top_p": 0.0}, r"decode\.top_p=0\.0: expected a number above 0 and at most 1"),
        ({"decode.top_k": -1}, r"decode\.top_k=-1: expected an int of 0 or more"),
        ({"decode.temperature": -1.0}, r"decode\.temperature=-1\.0: expected a number of 0"),
        ({"decode.beam_size": 0}, r"decode\.beam_size=0: expected an int of 1"),
        ({"data.tokenizer_texts": 0}, r"data\.tokenizer_texts=0: expected an int of 1"),
        ({"average_checkpoints": -1}, "average_checkpoints=-1: expected an int of 0"),
    ],
)
def test_decoding_searches_or_draws(overrides, message) -> None:
    with pytest.raises(UserError, match=message):
        load_config(TRANSLATION, overrides)


def test_a_mistyped_architecture_of_a_config_file_is_no_transformer() -> None:
    config = load_config(TRANSLATION).unlock()
    config.model.architecture = "recurent"
    with pytest.raises(UserError, match=r"architecture='recurent': .*did you mean 'recurrent'"):
        check(config)


def test_drawing_takes_its_options() -> None:
    drawn = {"decode.beam_size": 1, "decode.temperature": 0.8, "decode.top_k": 5}
    values = dict(leaves(load_config(TRANSLATION, drawn | {"decode.top_p": 1.0})))
    assert {key: values[key] for key in drawn} == drawn
