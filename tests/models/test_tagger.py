"""The whole tagger: packed equals separate, padding never shows, logits are float32."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import positions, variants
from attention.models.encoder import Encoder, EncoderConfig
from attention.models.tagger import Tagger
from attention.models.word_encoder import WordEncoder

LENGTHS = (4, 6, 3)
TAGS = 5


def make(position="sinusoidal", dtype="float32", variant="scaled_dot"):
    rngs = nnx.Rngs(0)
    inner = position if positions.place(position) == "attention" else None
    words = WordEncoder(
        30, 20, dim=8, word_dim=6, char_dim=4, word_dropout_rate=0.1, dtype=dtype, rngs=rngs
    )

    def make_attention(layer_index, rngs):
        return variants.make(
            variant, dim=8, num_heads=2, max_length=32, position=inner, dtype=dtype, rngs=rngs
        )

    config = EncoderConfig(
        dim=8, num_layers=2, mlp_dim=12, position=position, max_length=32, dtype=dtype
    )
    return Tagger(words, Encoder(config, make_attention, rngs=rngs), TAGS, rngs=rngs)


def sentences():
    random = np.random.default_rng(0)
    return [(random.integers(2, 30, n), random.integers(0, 20, (n, 7))) for n in LENGTHS]


def rows(layout, length, chars=7):
    """Returns words, chars and segment ids for rows of sentence numbers."""
    words = np.zeros((len(layout), length), np.int32)
    characters = np.zeros((len(layout), length, chars), np.int32)
    ids = np.zeros((len(layout), length), np.int32)
    given = sentences()
    for row, numbers in enumerate(layout):
        start = 0
        for segment, number in enumerate(numbers, 1):
            w, c = given[number]
            stop = start + len(w)
            words[row, start:stop], ids[row, start:stop] = w, segment
            characters[row, start:stop, :7] = c
            start = stop
    return words, characters, ids


def tag(model, layout, length, chars=7):
    """Returns the logits of each sentence, by number."""
    words, characters, ids = rows(layout, length, chars)
    logits = np.asarray(nnx.jit(model)(words, characters, segment_ids=ids))
    found = {}
    for row, numbers in enumerate(layout):
        for segment, number in enumerate(numbers, 1):
            found[number] = logits[row][ids[row] == segment]
    return found


@pytest.mark.parametrize("position", positions.names())
def test_packing_and_padding_never_show(position):
    model = make(position)
    packed = tag(model, [(0, 1, 2)], 16)
    for layout, length, chars in (
        ([(0,), (1,), (2,)], 6, 7),
        ([(2, 0), (1,)], 8, 7),
        ([(1,), (0,), (), (2,)], 23, 12),
    ):
        other = tag(model, layout, length, chars)
        for number in range(3):
            np.testing.assert_allclose(other[number], packed[number], rtol=0, atol=1e-5)


def test_logits_are_float32_and_near_in_bfloat16():
    words, chars, ids = rows([(0, 1, 2)], 16)
    wide, narrow = (make(dtype=d)(words, chars, segment_ids=ids) for d in ("float32", "bfloat16"))
    assert wide.dtype == narrow.dtype == jnp.float32
    assert wide.shape == (1, 16, TAGS)
    real = ids > 0
    assert np.abs(wide - narrow)[real].max() < 0.05 * np.abs(wide[real]).max()


@pytest.mark.fast
def test_padding_gives_no_gradient():
    """A loss over real words moves no parameter by way of padding, and nothing is NaN."""
    graphdef, parameters, rest = nnx.split(make(), nnx.Param, ...)
    words, chars, ids = rows([(0,), (), (1, 2)], 12)

    def loss(parameters, words, chars):
        model = nnx.merge(graphdef, parameters, rest)
        logits = model(words, chars, segment_ids=ids)
        return jnp.sum(jnp.where((ids > 0)[..., None], jnp.sin(logits), 0.0))

    gradient = jax.jit(jax.grad(loss))
    noisy_words, noisy_chars = np.where(ids > 0, words, 9), np.where(ids[..., None] > 0, chars, 3)
    clean = gradient(parameters, words, chars)
    noisy = gradient(parameters, noisy_words, noisy_chars)
    for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(noisy), strict=True):
        assert np.all(np.isfinite(a))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
