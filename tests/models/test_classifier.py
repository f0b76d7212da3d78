"""The whole classifier: packed equals alone, neighbours never show, word dropout, gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import variants
from attention.core.dropout import Rate
from attention.errors import UserError
from attention.models.classifier import Classifier
from attention.models.embedding import Embedding
from attention.models.encoder import Encoder, EncoderConfig
from attention.models.pooling import POOLINGS, make_pooling

SIZE, CLASSES = 30, 3
LENGTHS = (4, 1, 6)


def make(pooling="mean", dtype="float32", embed_dim=8, classes=CLASSES, **settings):
    rngs = nnx.Rngs(0)
    dropout = {k: settings.pop(k) for k in ("word_dropout_rate",) if k in settings}
    config = EncoderConfig(**{"dim": 8, "num_layers": 1, "mlp_dim": 12, "dtype": dtype, **settings})

    def make_attention(layer_index, rngs):
        return variants.make("scaled_dot", dim=8, num_heads=2, dtype=dtype, rngs=rngs)

    return Classifier(
        Embedding(SIZE, embed_dim, scaled=True, rngs=rngs),
        Encoder(config, make_attention, rngs=rngs),
        make_pooling(pooling, 8, rngs=rngs),
        classes,
        rngs=rngs,
        **dropout,
    )


def rows(layout, length):
    """Returns ids and segment ids for rows of example numbers."""
    random = np.random.default_rng(0)
    given = [random.integers(2, SIZE, n) for n in LENGTHS]
    ids, segment_ids = (np.zeros((len(layout), length), np.int32) for _ in range(2))
    for row, numbers in enumerate(layout):
        start = 0
        for segment, number in enumerate(numbers, 1):
            stop = start + LENGTHS[number]
            ids[row, start:stop], segment_ids[row, start:stop] = given[number], segment
            start = stop
    return ids, segment_ids


@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_example_has_the_same_logits_in_any_company(pooling):
    """Case 10: "good" alone, beside a long line, and packed with it."""
    run = nnx.jit(make(pooling), static_argnames="num_examples")
    ids, segment_ids = rows([(0, 1, 2)], 16)
    packed = run(ids, segment_ids=segment_ids, num_examples=4)
    assert packed.shape == (1, 4, CLASSES)
    layout = [(0,), (2, 1), (1,), ()]
    ids, segment_ids = rows(layout, 60)
    got = run(ids, segment_ids=segment_ids, num_examples=2)
    assert np.all(np.isfinite(got))
    for row, numbers in enumerate(layout):
        for place, number in enumerate(numbers):
            np.testing.assert_allclose(got[row, place], packed[0, number], rtol=0, atol=2e-6)


@pytest.mark.fast
def test_segments_follow_from_padding_where_none_are_given():
    run = nnx.jit(make())
    ids, segment_ids = rows([(2,), (1,)], 9)
    np.testing.assert_array_equal(run(ids), run(ids, segment_ids=segment_ids))


def test_logits_are_float32_and_near_in_bfloat16():
    ids, segment_ids = rows([(0, 1, 2)], 16)
    wide, narrow = (
        make("attention", dtype)(ids, segment_ids=segment_ids, num_examples=3)
        for dtype in ("float32", "bfloat16")
    )
    assert wide.dtype == narrow.dtype == jnp.float32
    assert 0 < np.abs(wide - narrow).max() < 0.05 * np.abs(wide).max()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_are_finite_beside_empty_rows_and_blind_to_padding(pooling):
    graphdef, parameters, rest = nnx.split(make(pooling), nnx.Param, ...)
    ids, segment_ids = rows([(0, 2), (), (1,)], 14)

    def loss(parameters, ids):
        model = nnx.merge(graphdef, parameters, rest)
        logits = model(ids, segment_ids=segment_ids, num_examples=3)
        exists = (jnp.arange(1, 4)[None] <= segment_ids.max(1)[:, None])[..., None]
        return jnp.sum(jnp.where(exists, jnp.sin(logits), 0.0))

    gradient = jax.jit(jax.grad(loss))
    clean, noisy = (gradient(parameters, i) for i in (ids, np.where(segment_ids > 0, ids, 9)))
    for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(noisy), strict=True):
        assert np.all(np.isfinite(a)) and np.any(a != 0.0)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)


def test_word_dropout_hides_words_in_training_only():
    model = make(word_dropout_rate=0.5)
    ids, segment_ids = rows([(0, 1, 2)], 16)
    clean = model(ids, segment_ids=segment_ids, num_examples=3)
    np.testing.assert_array_equal(clean, make()(ids, segment_ids=segment_ids, num_examples=3))
    draws = [
        model(ids, segment_ids=segment_ids, num_examples=3, rngs=nnx.Rngs(dropout=seed))
        for seed in range(2)
    ]
    assert np.abs(draws[0] - draws[1]).max() > 1e-2
    assert [float(rate) for rate in jax.tree.leaves(nnx.state(model, Rate))] == [0.5]
    # Where every word is hidden, words do not matter.
    nnx.update(model, jax.tree.map(lambda _: jnp.float32(1 - 1e-6), nnx.state(model, Rate)))
    others = np.where(ids > 0, (ids + 3) % SIZE, 0)
    one, two = (
        model(i, segment_ids=segment_ids, num_examples=3, rngs=nnx.Rngs(dropout=0))
        for i in (ids, others)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.fast
def test_parameters_are_counted():
    state = nnx.state(make("attention"), nnx.Param)
    blocks = (4 * (64 + 8) + 8 * 12 + 12 + 12 * 8 + 8 + 4 * 8) + 2 * 8
    want = SIZE * 8 + blocks + (64 + 8 + 8) + 8 * CLASSES + CLASSES
    assert sum(leaf.size for leaf in jax.tree.leaves(state)) == want


def test_the_states_give_the_pictures_their_weights():
    model = make("attention")
    ids, segment_ids = rows([(0, 2)], 16)
    weights = model.pooling.weights(model.states(ids, segment_ids=segment_ids), segment_ids, 2)
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-6)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pooling": "sum"}, r"model\.pooling='sum'"),
        ({"classes": 0}, "num_classes=0"),
        ({"embed_dim": 6}, r"width 6 .* 8.*model\.dim"),
        ({"word_dropout_rate": 1.0}, "1.0"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(UserError, match=words):
        make(**settings)
