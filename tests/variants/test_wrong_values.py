"""Values of a wrong type, out of reach or without effect: each is refused in one line, by name."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from flax import nnx
from support.cases import other_sequence

from attention import variants
from attention.core.dropout import Dropout
from attention.errors import UserError
from attention.ops.option_checks import is_number, is_whole

pytestmark = pytest.mark.fast

X = np.ones((1, 2, 8), np.float32)
NAN, INF, HUGE = math.nan, math.inf, 2**40
COUNTS = (2.0, "4", True, 0, -1, HUGE, 10**400, NAN, [2])
NUMBERS = ("x", True, NAN, INF, -INF, 0, -1.0, 10**400, [1.0])
WINDOWS = ("3", 3.5, True, (1, 2, 3), (1,), (1.0, 2), (True, 1), (-1, 0), HUGE, (0, HUGE), {})
OF_ALL = {
    "num_kv_heads": COUNTS,
    "block_size": COUNTS,
    "softcap": NUMBERS,
    "window": WINDOWS,
    "normalizer": (None, 3, "softmx", ["softmax"]),
    "qk_norm": (None, 3, True, "rmz"),
    "implementation": (None, 3, "chunk"),
}
OF_ONE = {
    "entmax": {"alpha": (*NUMBERS, None, 1.0, 2.5)},
    "dilated": {"dilation": COUNTS, "window": (*WINDOWS, None)},
    "sliding_window": {"window": (*WINDOWS, None)},
    "strided": {"stride": (*COUNTS, None)},
    "fixed": {"stride": (*COUNTS, None), "summary": (*COUNTS, None, 129)},
    "bigbird": {
        "pattern_block": (*COUNTS, None),
        "num_random": (2.0, "4", True, -1, HUGE, None),
        "seed": (2.0, "4", True, -1, HUGE, None),
        "layer": (2.0, "4", True, -1, HUGE),
        "max_global_tokens": COUNTS,
    },
    "longformer": {"max_global_tokens": COUNTS, "window": (*WINDOWS, None)},
    "mla": {name: COUNTS for name in ("latent_dim", "q_latent_dim", "rope_dim", "value_dim")},
    "differential": {"norm": (1, "yes", None), "lambda_init": ("x", True, NAN, INF)},
    "l2": {"tie_qk": (1, "yes", None)},
    "cnn": {"width": (*COUNTS, None)},
    "rnn": {"cell": (None, 3, "gro", ["gru"])},
    "location_sensitive": {
        "location_input": (None, 3, "last", ["previous"]),
        "width": (*COUNTS, None),
        "num_filters": (*COUNTS, None),
    },
    "monotonic": {
        "test_mode": (None, 3, "sof", ["soft"]),
        "noise": ("x", True, NAN, INF, None, -0.1),
        "initial_offset": ("x", True, NAN, INF, None),
    },
}
# What `make` takes, and how the message calls it: the key of a config where there is one.
SETTINGS = {
    "model.dim": {"dim": (*COUNTS, None)},
    "model.num_heads": {"num_heads": (*COUNTS, None)},
    "head_dim": {"head_dim": COUNTS},
    "context_dim": {"context_dim": COUNTS},
    "data.max_length": {"max_length": COUNTS},
    "layer_index": {"layer_index": (1.0, "1", True, -1, None)},
    "causal": {"causal": (1, None, "no")},
    "model.dropout_rate": {"dropout_rate": (None, "x", True, NAN, INF, 1.0, 1.5, -0.1)},
    "dtype": {"dtype": ("float99", None, 3, "int32", ["float32"])},
}


def one_line(caught, *words: str) -> None:
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def faults(variant: str, name: str, values: tuple, *words: str) -> list[str]:
    """Returns what is wrong with how each value is refused; `words` may have the value's {}."""
    found = []
    for value in values:
        given = {"dim": 8, "num_heads": 4, "rngs": nnx.Rngs(0), name: value}
        wanted = [word.format(value) for word in words]
        try:
            variants.make(variant, **given)
        except UserError as error:
            text = str(error)
            if "\n" in text or not all(word in text for word in wanted):
                found.append(f"{name}={value!r}: {text!r} has not {wanted} in one line")
        except Exception as error:
            found.append(f"{name}={value!r}: {error!r} is no UserError")
        else:
            found.append(f"{name}={value!r} is accepted")
    return found


# One test for all values of an option: there are hundreds, and each takes a millisecond.
@pytest.mark.parametrize(
    ("variant", "option", "values"),
    [
        pytest.param(variant, option, values, id=f"{variant}-{option}")
        for variant, options in [("scaled_dot", OF_ALL), *OF_ONE.items()]
        for option, values in options.items()
    ],
)
def test_options(variant, option, values):
    beside = {"bidirectional", "causal"} & variants.get(variant).MODES
    section = "attention" if beside else "cross_attention"  # as the page of the variant says
    wrong = faults(variant, option, values, f"model.{section}.{option}=", "{}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("key", SETTINGS)
def test_settings(key):
    for name, values in SETTINGS[key].items():
        wrong = faults("scaled_dot", name, values, f"{key}={{!r}}")
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("rate", [None, NAN, True, 1.5, "x"])
def test_dropout_rate(rate):
    with pytest.raises(UserError) as caught:
        Dropout(rate)
    one_line(caught, f"dropout_rate={rate!r}", "[0, 1)")


def test_every_option_is_tried():
    tried = {(owner, name) for owner, options in OF_ONE.items() for name in options}
    for variant in variants.names():
        for field in dataclasses.fields(variants.get(variant).Config):
            shared = field.name in {*OF_ALL, "alpha"}
            assert shared or field.metadata.get("fixed") or (variant, field.name) in tried


def test_numbers_of_numpy_are_numbers():
    assert is_whole(np.int32(3)) and is_number(np.float32(3)) and not is_number(np.float32(NAN))
    assert not is_whole(np.bool_(True)) and not is_whole(3.0)
    layer = variants.make("scaled_dot", dim=np.int64(8), num_heads=np.int64(2), rngs=nnx.Rngs(0))
    assert layer(np.ones((1, 2, 8), np.float32)).shape == (1, 2, 8)


@pytest.mark.parametrize(
    ("variant", "settings", "words"),
    [
        ("bigbird", {"seed": 5, "num_random": 0}, ["seed=5", "num_random=0"]),
        ("l2", {"normalizer": "relu2"}, ["normalizer='relu2'", "variant=l2", "scaled_dot"]),
        ("rnn", {"context_dim": 6}, ["context_dim=6", "dim=8", "'rnn'"]),
        ("longformer", {"context_dim": 6}, ["context_dim=6", "'longformer'"]),
        ("scaled_dot", {"context_dim": 6, "causal": True}, ["context_dim=6", "is causal"]),
    ],
)
def test_without_effect(variant, settings, words):
    with pytest.raises(UserError) as caught:
        variants.make(variant, dim=8, num_heads=4, rngs=nnx.Rngs(0), **settings)
    one_line(caught, *words)


def test_a_context_as_wide_as_the_model_is_no_choice():
    assert variants.make("rnn", dim=8, num_heads=4, context_dim=8, rngs=nnx.Rngs(0))


@pytest.mark.parametrize(
    ("variant", "option", "value", "advice"),
    [
        ("sigmoid", "normalizer", "relu", "variant=scaled_dot"),
        ("bigbird", "window", 3, "variant=sliding_window"),
        ("strided", "window", 3, "variant=sliding_window"),
        ("fixed", "window", 3, "variant=sliding_window"),
        ("mla", "num_kv_heads", 2, "share one latent"),
        ("pooling", "softcap", 2.0, "no queries, keys and scores"),
    ],
)
def test_what_the_name_decides_says_where_to_set_it(variant, option, value, advice):
    with pytest.raises(UserError) as caught:
        variants.get(variant).Config(**{option: value})
    one_line(caught, f"{option}={value!r} contradicts", advice)


def layer_of(variant: str, **settings) -> nnx.Module:
    causal = "causal" in variants.get(variant).MODES
    return variants.make(variant, dim=8, num_heads=4, causal=causal, rngs=nnx.Rngs(0), **settings)


DECODING = [name for name in variants.names() if "decode" in variants.get(name).MODES]


@pytest.mark.parametrize("variant", sorted({*variants.names()} - {*DECODING}))
def test_who_cannot_decode_says_who_can(variant):
    layer = layer_of(variant)
    for call in (lambda: layer.init_cache(1, 4), lambda: layer.decode(X, None)):
        with pytest.raises(UserError) as caught:
            call()
        one_line(caught, repr(variant), "cannot decode", "sliding_window")
    assert "sliding_window" in DECODING


@pytest.mark.long
@pytest.mark.slow  # the conformance suite compiles what this calls as it is
@pytest.mark.parametrize("variant", DECODING)
def test_who_can_decode_decodes(variant):
    layer = layer_of(variant)
    y, _ = layer.decode(X, layer.init_cache(1, 4, **other_sequence(variant, X)))
    assert y.shape == X.shape


@pytest.mark.parametrize("variant", ["rnn", "cnn"])
def test_weights_where_there_are_none(variant):
    q = np.ones((1, 2, 4, 2), np.float32)
    segment_ids = np.ones((1, 2), np.int32)
    for call in (
        lambda: layer_of(variant).weights(X, segment_ids=segment_ids),
        lambda: variants.get(variant).weights(q, q, causal=True),
    ):
        with pytest.raises(UserError) as caught:
            call()
        one_line(caught, repr(variant), "no attention weights")


@pytest.mark.long
@pytest.mark.parametrize("variant", variants.names())
def test_every_variant_answers_for_its_weights(variant):
    assert callable(variants.get(variant).weights)
    if variant not in ("rnn", "cnn"):
        weights = layer_of(variant).weights(X, **other_sequence(variant, X))
        assert weights.shape == (1, 4, 2, 2)


def test_weights_of_latents_are_those_of_a_layer():
    q = np.ones((1, 2, 4, 2), np.float32)
    with pytest.raises(UserError) as caught:
        variants.get("mla").weights(q, q)
    one_line(caught, "'mla'", "layer.weights(x)")


@pytest.mark.parametrize("variant", DECODING)
def test_caches_say_their_end_by_one_name(variant):
    context = other_sequence(variant, np.ones((3, 2, 8), np.float32))
    cache = layer_of(variant).init_cache(3, 4, **context)
    for name in ("position", "max_length", "overflow"):
        assert getattr(cache, name).shape == (3,)
    assert np.all(cache.max_length == 4)
