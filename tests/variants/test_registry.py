"""Variants by name: what is found, what is refused, and how the refusal reads."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import variants
from attention.core.layer import AttentionLayer
from attention.errors import UserError
from attention.variants import scaled_dot

pytestmark = pytest.mark.fast


def make(**settings):
    return variants.make(
        "scaled_dot", **{"dim": 8, "num_heads": 4, "rngs": nnx.Rngs(0), **settings}
    )


def test_names_are_file_names():
    assert "scaled_dot" in variants.names()
    assert isinstance(variants.names(), tuple)
    assert variants.get("scaled_dot") is scaled_dot


def test_unknown_name_says_the_nearest_and_all():
    with pytest.raises(UserError, match=r"'scaled_dt'.*did you mean 'scaled_dot'.*scaled_dot"):
        variants.make("scaled_dt", dim=8, num_heads=2, rngs=nnx.Rngs(0))


def test_unknown_option_says_the_nearest():
    with pytest.raises(UserError, match=r"'num_kv_head'.*did you mean 'num_kv_heads'"):
        make(num_kv_head=2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_heads": 3}, ["dim=8", "num_heads=3", "model.dim"]),
        ({"num_heads": 0}, ["num_heads=0"]),
        ({"num_kv_heads": 3}, ["num_kv_heads=3", "num_heads=4"]),
        ({"num_kv_heads": 0}, ["num_kv_heads=0"]),
        ({"position": "sinusoidal"}, ["sinusoidal", "input"]),
        ({"position": "ropes"}, ["ropes", "did you mean 'rope'"]),
        ({"position": "rope", "head_dim": 3}, ["head_dim=3", "odd"]),
        ({"dropout_rate": 1.0}, ["1.0"]),
        ({"dtype": "float31"}, ["float31", "bfloat16"]),
        ({"dtype": "int32"}, ["int32"]),
        ({"context_dim": 0}, ["context_dim=0"]),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(UserError) as caught:
        make(**settings)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_causal_needs_the_mode(monkeypatch):
    monkeypatch.setattr(scaled_dot, "MODES", frozenset({"bidirectional"}))
    with pytest.raises(UserError, match="cannot be causal"):
        make(causal=True)


@pytest.mark.parametrize("dtype", ["bfloat16", jnp.bfloat16, jnp.dtype("bfloat16")])
def test_dtype_by_name_or_object(dtype):
    layer = make(dtype=dtype)
    assert layer(np.ones((1, 2, 8), np.float32)).dtype == jnp.bfloat16
    assert layer.query.kernel[...].dtype == jnp.float32


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        variants.get("scaled_dot").Config().num_kv_heads = 2


def test_head_dim_need_not_divide_dim():
    layer = make(dim=7, num_heads=2, head_dim=5)
    assert isinstance(layer, AttentionLayer)
    assert layer(np.ones((1, 3, 7), np.float32)).shape == (1, 3, 7)
