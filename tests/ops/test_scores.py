"""Scores at the ends of their range: vectors of zeros, and what cancels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention.ops import scores

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-19, 1e-16, 1e-10, 1.0, 1e15])
def test_cosine_of_vectors_of_any_length_is_finite(length):
    q, k = (jnp.asarray(x, jnp.float32) * length for x in drawn())

    def total(q, k):
        return jnp.sum(jnp.sin(scores.cosine(q, k, temperature=jnp.full(2, 10.0))))

    value, gradients = jax.value_and_grad(total, (0, 1))(q, k)
    assert np.isfinite(value) and all(np.all(np.isfinite(g)) for g in gradients)
    if length < 1e-12:  # no direction
        assert value == 0.0 and not any(np.any(g) for g in gradients)
    else:
        assert all(np.any(g) for g in gradients)


@pytest.mark.parametrize("common", [0.0, 10.0, 1e4])
def test_distance_is_as_exact_as_documented(common):
    """What queries and keys have in common costs digits, as the docstring says, and no more."""
    q, k = (np.float32(x + common) for x in drawn())
    wide_q, wide_k = (np.asarray(x, np.float64).swapaxes(1, 2) for x in (q, k))
    difference = wide_q[:, :, :, None] - wide_k[:, :, None]
    want = -np.sum(difference**2, axis=-1) / np.sqrt(q.shape[-1])
    squares = np.sum(wide_q**2, -1)[..., None] + np.sum(wide_k**2, -1)[:, :, None]
    bound = 4 * 2.0**-24 * squares / np.sqrt(q.shape[-1])
    got = np.asarray(scores.l2(jnp.asarray(q), jnp.asarray(k)), np.float64)
    assert np.all(np.abs(got - want) <= bound) and np.all(got <= 0.0)


def drawn() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=(1, length, 2, 8)) for length in (5, 7)]
