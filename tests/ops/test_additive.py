"""The additive score: its gradients, and what it must not keep."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention.ops import additive

pytestmark = pytest.mark.fast
T, N, H = 256, 2, 32


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def plainly(q, k, u):
    k = jnp.repeat(k, q.shape[2] // k.shape[2], axis=2)
    hidden = jnp.tanh(q[:, :, None] + k[:, None])  # [b t s n h]
    return jnp.einsum("btsnh,nh->bnts", hidden, u)


def test_values_and_gradients_are_those_of_the_formula():
    arrays = random(2, 5, 4, 6), random(2, 7, 2, 6, seed=1), random(4, 6, seed=2)
    out, pull = jax.vjp(additive.score, *arrays)
    want, pull_plainly = jax.vjp(plainly, *arrays)
    np.testing.assert_allclose(out, want, rtol=0, atol=2e-6)
    cotangent = random(*out.shape, seed=3)
    for one, other in zip(pull(cotangent), pull_plainly(cotangent), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def temporary_bytes(score) -> int:
    """What the compiled gradient of a score needs besides inputs and outputs."""
    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((1, T, N, H), (1, T, N, H), (N, H))]
    gradient = jax.grad(lambda *arrays: jnp.sum(jnp.sin(score(*arrays))), argnums=(0, 1, 2))
    return jax.jit(gradient).lower(*shapes).compile().memory_analysis().temp_size_in_bytes


def test_no_array_has_length_squared_times_head_size():
    """The formula as it stands keeps one, which is what the bound tells from a few of scores."""
    scores = 4 * N * T * T
    assert temporary_bytes(additive.score) < 8 * scores
    assert temporary_bytes(plainly) > H // 2 * scores
