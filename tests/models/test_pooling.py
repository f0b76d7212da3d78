"""Poolings: exact over real tokens, whatever else is in the row."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention.errors import UserError
from attention.models.pooling import POOLINGS, make_pooling

pytestmark = pytest.mark.fast

DIM = 6
LENGTHS = (4, 1, 5)
over_names = pytest.mark.parametrize("name", POOLINGS)


def make(name):
    pooling = make_pooling(name, DIM, rngs=nnx.Rngs(0))
    if name == "attention":
        pooling.hidden.bias[...] = jnp.linspace(-0.5, 0.5, DIM)
        pooling.query[...] = 3.0 * pooling.query[...]
    return pooling


def examples():
    random = np.random.default_rng(0)
    return [random.normal(size=(n, DIM)).astype(np.float32) for n in LENGTHS]


def packed(numbers, length, fill=0.0):
    """Returns x [1 t d] and ids of a row that holds the examples of these numbers."""
    x = np.full((1, length, DIM), fill, np.float32)
    ids = np.zeros((1, length), np.int32)
    start = 0
    for segment, number in enumerate(numbers, 1):
        stop = start + LENGTHS[number]
        x[0, start:stop], ids[0, start:stop] = examples()[number], segment
        start = stop
    return x, ids


def by_hand(name, pooling, tokens):
    """The definition, in float64, for one example."""
    tokens = np.asarray(tokens, np.float64)
    if name == "mean":
        return tokens.sum(0) / len(tokens)
    if name == "max":
        return tokens.max(0)
    if name == "first":
        return tokens[0]
    kernel, bias, query = (
        np.asarray(p[...], np.float64)
        for p in (pooling.hidden.kernel, pooling.hidden.bias, pooling.query)
    )
    scores = np.array([query @ np.tanh(token @ kernel + bias) for token in tokens])
    shares = np.exp(scores) / np.exp(scores).sum()
    return shares @ tokens


@over_names
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0), (1,)])
def test_pooling_is_the_definition_for_each_example_of_a_row(name, order):
    pooling = make(name)
    x, ids = packed(order, 13, fill=7.0)
    got = pooling(x, ids, 4)
    assert got.shape == (1, 4, DIM) and got.dtype == jnp.float32
    for place, number in enumerate(order):
        want = by_hand(name, pooling, examples()[number])
        np.testing.assert_allclose(got[0, place], want, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(got[0, len(order) :], 0.0)


@over_names
def test_neither_padding_nor_neighbours_show(name):
    pooling = jax.jit(make(name), static_argnums=2)
    alone = np.asarray(pooling(*packed((0,), LENGTHS[0]), 1))[0, 0]
    rows = [packed((0,), 60), packed((0,), 40, np.nan), packed((2, 1, 0), 30, 1e30)]
    for place, (x, ids) in zip((0, 0, 2), rows, strict=True):
        got = np.asarray(pooling(x, ids, 3))[0, place]
        if name in ("max", "first"):
            np.testing.assert_array_equal(got, alone)
        else:
            np.testing.assert_allclose(got, alone, rtol=0, atol=1e-6)
    # The content of neighbours and padding, at the same places: to the last bit.
    x, ids = packed((2, 0), 20)
    other = np.where((ids == 2)[..., None], x, np.float32(50.0) - x)
    np.testing.assert_array_equal(pooling(other, ids, 2)[0, 1], pooling(x, ids, 2)[0, 1])


@over_names
def test_gradients_reach_own_tokens_only_and_are_finite(name):
    pooling = make(name)
    graphdef, state = nnx.split(pooling)
    x, ids = packed((0, 2), 12)
    x, ids = np.concatenate([x, x]), np.concatenate([ids, 0 * ids])

    def loss(state, x, example):
        return jnp.sum(jnp.sin(nnx.merge(graphdef, state)(x, ids, 3)[:, example]))

    grad = jax.jit(jax.grad(loss, argnums=(0, 1)), static_argnums=2)
    for example in range(3):
        of_state, of_x = grad(state, x, example)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((of_state, of_x)))
        own = ids == example + 1
        assert np.all(np.asarray(of_x)[~own] == 0.0)
        assert own.any() == np.any(np.asarray(of_x) != 0.0)
        spoilt = np.where((ids == 0)[..., None], np.float32(np.nan), x)
        jax.tree.map(np.testing.assert_array_equal, (of_state, of_x), grad(state, spoilt, example))


@pytest.mark.long
@over_names
def test_gradients_are_the_slopes(name):
    graphdef, state = nnx.split(make(name))
    x, ids = packed((0, 1, 2), 12)
    toward = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)

    def loss(x):
        return jnp.sum(jnp.sin(nnx.merge(graphdef, state)(x, ids, 3)))

    width = 1e-2
    slope = (loss(x + width * toward) - loss(x - width * toward)) / (2 * width)
    got = jnp.sum(jax.grad(loss)(x) * toward)
    np.testing.assert_allclose(got, slope, rtol=1e-2, atol=5e-3)


def test_equal_largest_values_share_the_gradient():
    x = np.array([[[2.0], [1.0], [2.0], [5.0]]], np.float32)
    ids = np.array([[1, 1, 1, 0]], np.int32)
    pooling = make("max")
    got = jax.grad(lambda x: jnp.sum(3.0 * pooling(x, ids, 1)))(x)
    np.testing.assert_array_equal(got[0, :, 0], [1.5, 0.0, 1.5, 0.0])


@pytest.mark.parametrize("name", ["mean", "first", "attention"])
def test_weights_are_shares_of_own_tokens(name):
    pooling = make(name)
    x, ids = packed((2, 0), 12)
    weights = np.asarray(pooling.weights(x, ids, 3))
    assert weights.shape == (1, 3, 12) and np.all(weights >= 0.0)
    for example in range(3):
        assert np.all(weights[0, example][ids[0] != example + 1] == 0.0)
    np.testing.assert_allclose(weights.sum(-1), [[1.0, 1.0, 0.0]], atol=1e-6)
    got = pooling(x, ids, 3)
    np.testing.assert_allclose(got, weights @ x, rtol=0, atol=1e-6)


def test_attention_survives_large_scores():
    pooling = make("attention")
    pooling.query[...] = 1e3 * jnp.sign(pooling.query[...])
    x, ids = packed((0, 2), 12)
    graphdef, state = nnx.split(pooling)
    grad = jax.grad(lambda s, x: jnp.sum(nnx.merge(graphdef, s)(x, ids, 3)), argnums=(0, 1))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(grad(state, 9.0 * x)))
    np.testing.assert_allclose(pooling.weights(9.0 * x, ids, 2).sum(-1), 1.0, rtol=1e-6)


@pytest.mark.long
@over_names
def test_sums_are_float32_where_states_are_not(name):
    """1,000 tokens: a bfloat16 sum would stop growing at 256."""
    x = jnp.ones((1, 1000, DIM), jnp.bfloat16)
    got = make(name)(x, np.ones((1, 1000), np.int32), 1)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, 1.0, rtol=1e-5)


def test_an_unknown_pooling_is_named():
    with pytest.raises(UserError, match=r"model\.pooling='man'.*did you mean 'm"):
        make_pooling("man", DIM, rngs=nnx.Rngs(0))
