"""Words to vectors: characters, word dropout, and switches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention.core.dropout import Rate
from attention.errors import UserError
from attention.models.character_encoder import CharacterEncoder
from attention.models.word_encoder import UNKNOWN, WordEncoder

pytestmark = pytest.mark.fast


def make(**settings):
    given = {"dim": 6, "word_dim": 5, "char_dim": 4, "rngs": nnx.Rngs(0), **settings}
    return WordEncoder(20, 12, **given)


def make_ids():
    random = np.random.default_rng(0)
    words = random.integers(2, 20, (3, 7))
    words[:, 5:] = 0
    chars = random.integers(1, 12, (3, 7, 9))
    lengths = random.integers(1, 8, (3, 7))
    lengths[:, 5:] = 0
    return words, np.where(np.arange(9) < lengths[..., None], chars, 0)


def test_characters_are_the_formula():
    encoder = CharacterEncoder(12, 4, rngs=nnx.Rngs(0))
    encoder.convolution.bias[...] = jnp.array([0.3, -0.2, 0.1, 0.5])
    _, chars = make_ids()
    table = np.asarray(encoder.chars.embedding[...])
    width, dim = encoder.width, table.shape[1]
    kernel = np.asarray(encoder.convolution.kernel[...]).reshape(width, dim, 4)
    got = encoder(chars, dtype=jnp.float32)
    for b, t in np.ndindex(3, 7):
        word = [c for c in chars[b, t] if c]
        edge = [[0] * dim] * (width // 2)
        vectors = np.array([*edge, *(table[c] for c in word), *edge])
        rows = [
            sum(vectors[i + o] @ kernel[o] for o in range(width)) + encoder.convolution.bias[...]
            for i in range(len(word))
        ]
        want = np.maximum(np.array(rows), 0).max(0) if word else np.zeros(4)
        np.testing.assert_allclose(got[b, t], want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_character_padding_never_shows(dtype):
    encoder = make(dtype=dtype)
    words, chars = make_ids()
    longer = np.pad(chars, ((0, 0), (0, 0), (0, 5)))
    np.testing.assert_array_equal(encoder(words, chars), encoder(words, longer))
    assert encoder(words, chars).dtype == jnp.dtype(dtype)


def test_each_part_can_be_left_out():
    words, chars = make_ids()
    other_words, other_chars = np.where(words > 0, 2, 0), np.where(chars > 0, 2, 0)
    no_words, no_chars = make(use_words=False), make(use_chars=False)
    np.testing.assert_array_equal(no_words(words, chars), no_words(other_words, chars))
    np.testing.assert_array_equal(no_chars(words, chars), no_chars(words, other_chars))
    both = make()
    assert np.abs(both(words, chars) - both(other_words, chars)).max() > 1e-3
    assert np.abs(both(words, chars) - both(words, other_chars)).max() > 1e-3
    with pytest.raises(UserError, match=r"model\.use_words.*model\.use_chars"):
        make(use_words=False, use_chars=False)


def test_word_dropout_makes_words_unknown_and_keeps_padding():
    encoder = make(use_chars=False, word_dropout_rate=0.5)
    words, chars = make_ids()
    plain = np.asarray(encoder(words, chars))
    np.testing.assert_array_equal(plain, make(use_chars=False)(words, chars))
    unknown = np.asarray(encoder(np.full_like(words, UNKNOWN), chars))
    dropped = np.asarray(encoder(words, chars, rngs=nnx.Rngs(dropout=0)))
    is_plain = np.all(dropped == plain, -1)
    is_unknown = np.all(dropped == unknown, -1)
    assert np.all(is_plain | is_unknown)
    assert is_plain[:, :5].any() and is_unknown[:, :5].any()
    assert np.all(is_plain[:, 5:])


def test_word_dropout_rate_is_traced():
    encoder = make(use_chars=False, word_dropout_rate=0.5)
    graphdef, rates, rest = nnx.split(encoder, Rate, ...)
    words, chars = make_ids()

    @jax.jit
    def run(rate):
        given = jax.tree.map(lambda _: rate, rates)
        model = nnx.merge(graphdef, given, rest)
        return model(words, chars, rngs=nnx.Rngs(dropout=0))

    np.testing.assert_allclose(run(0.0), encoder(words, chars), atol=1e-6)
    assert np.abs(run(0.9) - encoder(words, chars)).max() > 1e-3


def test_ids_past_the_vocabulary_cannot_pass_for_words():
    words, chars = make_ids()
    words[0, 0] = 20
    y = np.asarray(make()(words, chars))
    assert np.all(np.isnan(y[0, 0])) and np.all(np.isfinite(y[0, 1:]))
