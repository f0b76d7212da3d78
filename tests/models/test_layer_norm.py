"""Layer normalization over features, in float32."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from attention.models.layer_norm import EPSILON, LayerNorm

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("bfloat16", 3e-2)])
def test_is_the_formula(dtype, tolerance):
    random = np.random.default_rng(0)
    # A mean far above the spread: E[x²] − E[x]² would lose all digits.
    x = jnp.asarray(random.normal(size=(2, 3, 16)) + (300.0 if dtype == "float32" else 3.0), dtype)
    norm = LayerNorm(16)
    norm.scale[...] = jnp.asarray(random.normal(size=16), jnp.float32)
    norm.bias[...] = jnp.asarray(random.normal(size=16), jnp.float32)
    wide = np.asarray(x, np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    want = centred / np.sqrt(wide.var(-1, keepdims=True) + EPSILON)
    want = want * np.asarray(norm.scale[...]) + np.asarray(norm.bias[...])
    got = norm(x)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=tolerance)
