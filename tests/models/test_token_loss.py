"""The loss in chunks is the loss over all logits, and so are its gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention.models import token_loss as module
from attention.models.token_loss import CHUNK, token_loss

pytestmark = pytest.mark.fast

SIZE, DIM = 17, 6


def given(b, t, dtype="float32", share=0.3):
    random = np.random.default_rng(0)
    x = jnp.asarray(2.0 * random.normal(size=(b, t, DIM)), dtype)
    table = jnp.asarray(random.normal(size=(SIZE, DIM)), jnp.float32)
    labels = random.integers(0, SIZE, (b, t))
    return x, table, np.where(random.random((b, t)) < share, -1, labels)


def plain(x, table, labels, smoothing):
    """The definition: a cross-entropy with the smoothed distribution, token by token."""
    logits = jnp.einsum("btd,vd->btv", x.astype(jnp.float32), table)
    target = (1.0 - smoothing) * jax.nn.one_hot(labels, SIZE) + smoothing / SIZE
    loss = -jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)
    right = jnp.argmax(logits, axis=-1) == labels
    return jnp.sum(jnp.where(labels >= 0, loss, 0.0)), jnp.sum((labels >= 0) & right)


@pytest.mark.long
@pytest.mark.parametrize("size", [(2, 5), (3, 100), (1, CHUNK), (4, 2 * CHUNK)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sums_and_gradients_are_those_of_the_definition(size, smoothing):
    x, table, labels = given(*size)
    run = jax.jit(lambda x, table, s: token_loss(x, table, labels, label_smoothing=s))
    got = run(x, table, smoothing)
    loss, correct = plain(x, table, labels, smoothing)
    np.testing.assert_allclose(got.loss, loss, rtol=1e-5)
    assert got.correct == correct
    assert size == (2, 5) or correct > 0

    def grad(loss):
        return jax.jit(jax.grad(lambda x, table: 0.5 * loss(x, table), argnums=(0, 1)))(x, table)

    parts = grad(lambda x, table: run(x, table, smoothing).loss)
    wanted = grad(lambda x, table: plain(x, table, labels, smoothing)[0])
    for part, want in zip(parts, wanted, strict=True):
        np.testing.assert_allclose(part, want, rtol=2e-6, atol=2e-5)


def test_all_at_once_is_the_same_as_in_chunks():
    """What accelerators run."""
    x, table, labels = given(2, 200)
    flat = x.reshape(-1, DIM), table, labels.reshape(-1), jnp.float32(0.1), True
    whole, chunked = module._part(*flat), module._in_chunks(*flat)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(chunked), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_padding_may_hold_anything_and_gets_no_gradient():
    x, table, labels = given(2, 70)
    spoilt = jnp.where((labels < 0)[..., None], jnp.nan, x)

    def loss(x, table):
        return token_loss(x, table, labels).loss

    clean, bad = (jax.grad(loss, argnums=(0, 1))(array, table) for array in (x, spoilt))
    jax.tree.map(np.testing.assert_array_equal, clean, bad)
    assert np.all(np.asarray(bad[0])[labels < 0] == 0.0)


def test_no_labels_at_all():
    x, table, _ = given(2, 5)
    labels = np.full((2, 5), -1)
    sums, gradients = jax.value_and_grad(lambda x: token_loss(x, table, labels).loss)(x)
    assert sums == 0.0 and np.all(gradients == 0.0)


def test_bfloat16_products_have_float32_sums():
    x, table, labels = given(4, 200, "bfloat16")
    got = jax.jit(lambda x: token_loss(x, table, labels))(x)
    assert got.loss.dtype == jnp.float32
    np.testing.assert_allclose(got.loss, plain(x, table, labels, 0.0)[0], rtol=2e-3)
    of_x, of_table = jax.grad(lambda *a: token_loss(*a, labels).loss, argnums=(0, 1))(x, table)
    assert of_x.dtype == jnp.bfloat16 and of_table.dtype == jnp.float32


def test_a_gradient_counts_the_label_smoothing_as_given():
    x, table, labels = given(2, 5)
    slope = jax.grad(lambda s: token_loss(x, table, labels, label_smoothing=s).loss)(0.1)
    assert slope == 0.0
