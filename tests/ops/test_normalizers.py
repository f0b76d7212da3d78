"""Softmax over the visible keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention.ops.normalizers import softmax

pytestmark = pytest.mark.fast
SCORES = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)


def test_hidden_keys_and_blind_queries():
    visible = np.ones((2, 1, 4, 5), bool)
    visible[0, 0, 1] = False
    visible[1, 0, :, 3] = False
    weights = np.asarray(softmax(jnp.asarray(SCORES), jnp.asarray(visible)))
    assert np.all(weights[0, :, 1] == 0.0)
    assert np.all(weights[1, :, :, 3] == 0.0)
    sums = weights.sum(-1)
    np.testing.assert_allclose(sums[1], 1.0, rtol=1e-6)
    gradient = jax.grad(lambda s: jnp.sum(jnp.cos(softmax(s, jnp.asarray(visible)))))(SCORES)
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[0, :, 1] == 0.0) and np.all(gradient[1, :, :, 3] == 0.0)


def test_equals_jax_in_value_and_derivatives():
    def twice(normalize):
        def loss(s):
            return jnp.sum(jnp.sin(3.0 * normalize(s)))

        return normalize(SCORES), jax.grad(loss)(SCORES), jax.jvp(normalize, (SCORES,), (SCORES,))

    ours, theirs = twice(lambda s: softmax(s, None)), twice(jax.nn.softmax)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=2e-7), ours, theirs)


@pytest.mark.parametrize("size", [1e4, -1e4, 3e38])
def test_large_scores(size):
    scores = jnp.asarray([[[[size, size, -size]]]], jnp.float32)
    weights = softmax(scores, None)
    want = [0.5, 0.5, 0.0] if size > 0 else [0.0, 0.0, 1.0]
    np.testing.assert_allclose(weights[0, 0, 0], want, atol=1e-6)
