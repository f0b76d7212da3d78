"""Variants by name: what is found, what is refused, and how the refusal reads."""

from __future__ import annotations

import dataclasses

import jax
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


def test_arrays_of_positions_must_fit():
    q = jnp.ones((1, 3, 4, 6))
    attend = variants.get("scaled_dot").attend
    tables = {"key_table": jnp.ones((5, 6)), "value_table": jnp.ones((5, 1))}
    for own in ({"slopes": jnp.ones(1)}, {"bias_table": jnp.ones((8, 2))}, tables):
        with pytest.raises(ValueError, match="has shape"):
            attend(q, q, q, **own)


@pytest.mark.parametrize("name", ["fixed", "longformer", "bigbird"])
def test_patterns_of_whole_rows_take_no_part_of_one(name):
    q, k = jnp.ones((1, 2, 2, 4)), jnp.ones((1, 6, 2, 4))
    with pytest.raises(ValueError, match="whole rows"):
        variants.get(name).attend(q, k, k, query_offset=4)


def test_a_window_wider_than_the_row_costs_no_more_than_the_row():
    attend = variants.get("sliding_window").attend

    def temporary(window):
        q = jax.ShapeDtypeStruct((1, 1024, 1, 8), jnp.float32)
        run = jax.jit(lambda q: attend(q, q, q, window=window, implementation="chunked"))
        return run.lower(q).compile().memory_analysis().temp_size_in_bytes

    assert temporary(2**20) <= 1.1 * temporary(1023)
    with pytest.raises(UserError, match=r"window=3000000000.*0 to"):
        attend(*3 * [jnp.ones((1, 2, 1, 4))], window=3_000_000_000)


def test_positions_must_be_those_of_the_input():
    layer, x = make(position="rope"), jnp.ones((2, 5, 8))
    for positions in (jnp.zeros((1, 1), jnp.int32), jnp.zeros(5, jnp.int32), jnp.zeros((2, 5))):
        with pytest.raises(ValueError, match="positions are"):
            layer(x, positions=positions)


def test_a_cross_layer_ends_where_its_cache_does():
    layer, x = make(), jnp.ones((2, 2, 8))
    cache = layer.init_cache(2, 3)
    _, cache = layer.decode(x, cache, context=x)
    with pytest.raises(UserError, match="max_length=3"):
        layer.decode(x, cache, context=x)
    _, after = jax.jit(lambda x, c: layer.decode(x, c, context=x))(x, cache)
    assert np.all(after.overflow)


def test_a_window_given_as_a_list_can_be_hashed():
    layer = make(window=[3, 1])
    assert hash(nnx.split(layer)[0]) == hash(nnx.split(make(window=(3, 1)))[0])
