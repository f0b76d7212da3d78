"""The attention layer around the exact core, against float64 NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import scaled_dot as reference
from support.visibility import visible_pairs

from attention import variants
from attention.errors import UserError

pytestmark = pytest.mark.fast
B, T, S, D, C, N, K, H = 3, 5, 7, 12, 10, 4, 2, 6


def make(**settings):
    given = {"dim": D, "num_heads": N, "head_dim": H, "num_kv_heads": K, "rngs": nnx.Rngs(0)}
    return variants.make("scaled_dot", **{**given, **settings})


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_projections_and_heads():
    layer = make(context_dim=C)
    x, context = random(B, T, D), random(B, S, C, seed=1)
    mask = np.random.default_rng(2).random((B, 1, 1, S)) < 0.7

    def heads(linear, x):
        kernel, bias = (np.asarray(p[...], np.float64) for p in (linear.kernel, linear.bias))
        return (x @ kernel + bias).reshape(*x.shape[:2], -1, H)

    q, k = heads(layer.query, x), heads(layer.key, context)
    v = heads(layer.value, context)
    sees = visible_pairs((B, N, T, S), mask=mask)
    out = reference.attend(q, k, v, sees).reshape(B, T, N * H)
    want = out @ np.asarray(layer.out.kernel[...], np.float64) + np.asarray(layer.out.bias[...])
    np.testing.assert_allclose(layer(x, context=context, mask=mask), want, rtol=0, atol=2e-6)
    weights = layer.weights(x, context=context, mask=mask)
    np.testing.assert_allclose(weights, reference.weights(q, k, sees), rtol=0, atol=1e-6)


def test_weights_are_those_of_the_call():
    layer = make(causal=True, position="rope")
    ids = np.array([[1, 1, 2, 2, 2]] * B)
    weights = np.asarray(layer.weights(random(B, T, D), segment_ids=ids))
    assert weights.shape == (B, N, T, T)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-6)
    assert np.all(weights[:, :, :2, 2:] == 0) and np.all(weights[:, :, 2:, :2] == 0)


def test_positions_restart_by_default_and_can_be_given():
    layer = make(position="rope")
    x = random(B, T, D)
    ids = np.array([[1, 1, 2, 2, 2]] * B)
    by_default = layer(x, segment_ids=ids)
    given = layer(x, segment_ids=ids, positions=np.array([[0, 1, 0, 1, 2]] * B))
    np.testing.assert_array_equal(by_default, given)
    other = layer(x, segment_ids=ids, positions=np.array([[0, 3, 0, 2, 9]] * B))
    assert np.abs(other - given).max() > 1e-3


def test_dropout_drops_weights_only_with_rngs():
    layer, x = make(dropout_rate=0.5), random(B, T, D)
    plain = make()(x)
    np.testing.assert_array_equal(layer(x), plain)
    dropped = [layer(x, rngs=nnx.Rngs(dropout=seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(dropped[0], dropped[1])
    assert np.abs(dropped[0] - plain).max() > 1e-3
    assert np.abs(dropped[0] - dropped[2]).max() > 1e-3


def test_decode_with_a_mask_over_the_tokens_so_far():
    layer, x = make(causal=True), random(B, T, D)
    mask = np.ones((B, 1, 1, T), bool)
    mask[0, ..., :2] = False  # a prompt padded on the left
    full = layer(x, mask=mask)
    cache = layer.init_cache(B, T + 2)
    prompt, cache = layer.decode(x[:, :3], cache, mask=mask[..., :3])
    np.testing.assert_allclose(prompt[:, 2:], full[:, 2:3], rtol=0, atol=2e-6)
    for i in range(3, T):
        out, cache = layer.decode(x[:, i : i + 1], cache, mask=mask[..., : i + 1])
        np.testing.assert_allclose(out[:, 0], full[:, i], rtol=0, atol=2e-6)
    np.testing.assert_array_equal(cache.position, [T] * B)


def test_decode_to_a_context():
    layer, x = make(context_dim=C), random(B, T, D)
    context, mask = random(B, S, C, seed=1), np.ones((B, 1, 1, S), bool)
    mask[1, ..., 3:] = False
    full = layer(x, context=context, mask=mask)
    cache = layer.init_cache(B, T)
    for i in range(T):
        out, cache = layer.decode(x[:, i : i + 1], cache, context=context, mask=mask)
        np.testing.assert_allclose(out[:, 0], full[:, i], rtol=0, atol=2e-6)
    np.testing.assert_array_equal(cache.position, [T] * B)


def test_cache_keeps_kv_heads_only():
    cache = make(causal=True, dtype="bfloat16").init_cache(B, 9)
    assert cache.key.shape == cache.value.shape == (B, K, 9, H)
    assert cache.key.dtype == jnp.bfloat16


def test_rows_decode_at_their_own_positions():
    layer, x = make(causal=True, position="rope"), random(B, T, D)
    full = layer(x)
    cache = layer.init_cache(B, T)
    _, ahead = layer.decode(x[:, :3], cache)
    _, behind = layer.decode(x[:, :1], cache)
    rows = np.array([True, False, True])

    def pick(a, b):
        return jnp.where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    mixed = jax.tree.map(pick, ahead, behind)
    step = np.where(rows[:, None, None], x[:, 3:4], x[:, 1:2])
    out, _ = layer.decode(step, mixed)
    np.testing.assert_allclose(out[rows, 0], full[rows, 3], rtol=0, atol=2e-6)
    np.testing.assert_allclose(out[~rows, 0], full[~rows, 1], rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "call", "words"),
    [
        ({}, lambda layer, x: layer.decode(x, layer.init_cache(B, T)), "causal=True"),
        ({"causal": True}, lambda layer, x: layer(x, context=x), "causal=False"),
        ({"position": "rope"}, lambda layer, x: layer(x, context=x), "position=None"),
        ({}, lambda layer, x: layer(x, mask=np.ones((B, T), bool)), "rank 4"),
        ({"causal": True}, lambda layer, x: layer.decode(x, layer.init_cache(B, 4)), "max_length"),
    ],
)
def test_refusals(settings, call, words):
    with pytest.raises((UserError, ValueError), match=words):
        call(make(**settings), random(B, T, D))


def test_layer_state_is_parameters_only():
    state = nnx.state(make(causal=True, position="rope"))
    kernels = [path[-1] for path, _ in nnx.to_flat_state(state)]
    assert sorted(set(kernels)) == ["bias", "kernel"]
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(state))
