"""Products with written-out backward passes: the same derivatives, in every type and layout."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention.ops.heads import fold_groups, unfold_groups
from attention.ops.products import affine, score_product, value_product

pytestmark = pytest.mark.fast
RANDOM = np.random.default_rng(0)
SHAPES = {
    "wider": (lambda x, w: affine(x, w, jnp.zeros(w.shape[1])), "btd,df->btf", (2, 3, 4), (4, 5)),
    "narrower": (
        lambda x, w: affine(x, w, jnp.zeros(w.shape[1])),
        "btd,df->btf",
        (2, 3, 4),
        (4, 3),
    ),
    "score": (score_product, "btkh,bskh->bkts", (2, 3, 5, 4), (2, 6, 5, 4)),
    "value": (value_product, "bkts,bskh->btkh", (2, 5, 3, 6), (2, 6, 5, 4)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SHAPES)
def test_derivatives_equal_the_automatic_ones(name):
    product, spec, *shapes = SHAPES[name]
    arrays = [jnp.asarray(RANDOM.normal(size=shape), jnp.float32) for shape in shapes]

    def loss(product, *arrays):
        return jnp.sum(jnp.sin(product(*arrays)))

    def automatic(*arrays):
        return jnp.einsum(spec, *arrays)

    for derivative in (jax.grad, jax.hessian):
        got = derivative(loss, (1, 2))(product, *arrays)
        want = derivative(loss, (1, 2))(automatic, *arrays)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), got, want)


@pytest.mark.parametrize("name", SHAPES)
def test_bfloat16_accumulates_in_float32(name):
    product, spec, *shapes = SHAPES[name]
    left = jnp.asarray(RANDOM.normal(size=shapes[0]), jnp.bfloat16)
    right = jnp.asarray(RANDOM.normal(size=shapes[1]), jnp.bfloat16)
    exact = np.einsum(spec, np.asarray(left, np.float64), np.asarray(right, np.float64))
    got = product(left, right)
    is_affine = name in ("wider", "narrower")
    assert got.dtype == (jnp.bfloat16 if is_affine else jnp.float32)
    tolerance = 2.0**-8 if is_affine else 1e-6
    np.testing.assert_allclose(np.asarray(got, np.float64), exact, rtol=tolerance, atol=1e-6)
    wide = jnp.asarray(right, jnp.float32)
    gradients = jax.grad(lambda a, b: jnp.sum(product(a, b).astype(jnp.float32)), (0, 1))
    assert [g.dtype for g in gradients(left, wide)] == [jnp.bfloat16, jnp.float32]


def test_bias_and_its_gradient():
    x, kernel = jnp.ones((2, 3, 4), jnp.bfloat16), jnp.ones((4, 5))
    bias = jnp.arange(5.0)
    np.testing.assert_array_equal(affine(x, kernel, bias)[1, 2], 4.0 + np.arange(5.0))
    gradient = jax.grad(lambda b: jnp.sum(affine(x, kernel, b).astype(jnp.float32)))(bias)
    np.testing.assert_array_equal(gradient, np.full(5, 6.0))


@pytest.mark.parametrize("after", ["as it is", "transposed"])
def test_bfloat16_gradients_run_in_every_layout(after):
    """Without a barrier XLA fails at run time where the gradient of a kernel is transposed."""
    x = jnp.asarray(RANDOM.normal(size=(8, 16, 32)), jnp.bfloat16)
    kernel = jnp.asarray(RANDOM.normal(size=(32, 64)), jnp.float32)

    def loss(kernel):
        hidden = jax.nn.relu(affine(x, kernel, jnp.zeros(64)))
        y = affine(hidden, kernel.T, jnp.zeros(32)) if after == "transposed" else hidden
        return jnp.sum(jnp.square(y.astype(jnp.float32)))

    @jax.jit
    def gradient(kernel):
        g = jax.grad(loss)(kernel)
        return g.T if after == "transposed" else g

    assert np.all(np.isfinite(gradient(kernel)))


def test_groups_fold_in_repeat_order():
    b, t, n, kv_heads, h = 2, 3, 6, 2, 4
    q = RANDOM.normal(size=(b, t, n, h)).astype(np.float32)
    folded = fold_groups(q, kv_heads)
    assert folded.shape == (b, 3 * t, kv_heads, h)
    for head in range(n):
        group, key_head = head % 3, head // 3
        rows = folded[:, group * t : (group + 1) * t, key_head]
        np.testing.assert_array_equal(rows, q[:, :, head])
    np.testing.assert_array_equal(unfold_groups(folded, n), q)
