"""The table of vectors: its scale on the way in, its logits on the way out, word dropout."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention.core.dropout import Dropout, Rate
from attention.models.embedding import PADDING, UNKNOWN, Embedding, replace_words

pytestmark = pytest.mark.fast


def test_scaled_vectors_and_logits_have_variance_one():
    embed = Embedding(500, 64, scaled=True, rngs=nnx.Rngs(0))
    vectors = embed(jnp.arange(500)[None], dtype=jnp.float32)
    assert abs(float(jnp.var(vectors)) - 1.0) < 0.03
    assert abs(float(jnp.var(embed.logits(vectors[:, :50]))) - 1.0) < 0.2
    plain = Embedding(500, 64, rngs=nnx.Rngs(0))(jnp.arange(500)[None], dtype=jnp.float32)
    np.testing.assert_allclose(vectors, 8.0 * plain, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_and_their_gradients_are_those_of_the_product(dtype):
    embed = Embedding(11, 6, rngs=nnx.Rngs(0))
    random = np.random.default_rng(0)
    x = jnp.asarray(random.normal(size=(2, 5, 6)), dtype)
    toward = random.normal(size=(2, 5, 11)).astype(np.float32)
    graphdef, state = nnx.split(embed)

    def loss(state, x):
        return jnp.sum(nnx.merge(graphdef, state).logits(x) * toward)

    logits = embed.logits(x)
    assert logits.dtype == jnp.float32
    table, wide = np.asarray(embed.embedding[...], np.float64), np.asarray(x, np.float64)
    error = 1e-5 if dtype == "float32" else 0.02
    np.testing.assert_allclose(logits, wide @ table.T, rtol=0, atol=error)
    of_table, of_x = jax.grad(loss, argnums=(0, 1))(state, x)
    assert of_x.dtype == x.dtype and of_table.embedding[...].dtype == jnp.float32
    np.testing.assert_allclose(of_x.astype("f"), toward @ table, rtol=0, atol=3 * error)
    want = np.einsum("btv,btd->vd", toward, wide)
    np.testing.assert_allclose(of_table.embedding[...], want, rtol=0, atol=3 * error)


def test_an_id_past_the_table_is_no_number():
    vectors = Embedding(3, 2, rngs=nnx.Rngs(0))(jnp.array([2, 3]), dtype=jnp.float32)
    assert np.all(np.isfinite(vectors[0])) and np.all(np.isnan(vectors[1]))


def test_word_dropout_replaces_words_at_a_traced_rate():
    ids = np.random.default_rng(0).integers(2, 9, (40, 50))
    ids[:, 45:] = PADDING
    dropout = Dropout(0.3)
    structure, rate, rest = nnx.split(dropout, Rate, ...)

    @jax.jit
    def replaced(rate, seed):
        return replace_words(ids, nnx.merge(structure, rate, rest), rngs=nnx.Rngs(dropout=seed))

    for share in (0.3, 0.7):
        got = replaced(jax.tree.map(lambda _, s=share: jnp.float32(s), rate), jax.random.key(0))
        np.testing.assert_array_equal(got[:, 45:], PADDING)
        changed = np.asarray(got != ids)[:, :45]
        assert abs(changed.mean() - share) < 0.04
        assert np.all(np.asarray(got)[:, :45][changed] == UNKNOWN)
    assert replace_words(ids, dropout, rngs=None) is ids
