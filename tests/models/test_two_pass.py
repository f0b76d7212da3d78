"""Two causal layers as one that sees both ways."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention import variants
from attention.models.encoder import Encoder, EncoderConfig
from attention.models.two_pass import TwoPass
from attention.ops import runs

B, T, D = 3, 9, 8
LAYERS = [("scaled_dot", "rope"), ("scaled_dot", None), ("rnn", None), ("cnn", None)]
IDS = np.array([[1, 1, 1, 1, 2, 2, 2, 0, 0], [0, 0, 3, 3, 3, 1, 0, 0, 0], [1] * T], np.int32)
# (row, start, stop) of each sentence.
SENTENCES = [(0, 0, 4), (0, 4, 7), (1, 2, 5), (1, 5, 6), (2, 0, T)]
over_layers = pytest.mark.parametrize(("name", "position"), LAYERS)


@functools.cache
def make(name, position=None, **settings):
    rngs = nnx.Rngs(0)
    own = {"dim": D, "num_heads": 2, "causal": True, "position": position, **settings}
    two = TwoPass(lambda: variants.make(name, rngs=rngs, **own))
    random = np.random.default_rng(1)
    for _, leaf in nnx.to_flat_state(nnx.state(two, nnx.Param)):
        leaf[...] += 0.2 * random.normal(size=leaf.shape).astype(np.float32)
    return two


@functools.cache
def compiled(name, position=None):
    graphdef, state = nnx.split(make(name, position))
    return jax.jit(lambda x, **given: nnx.merge(graphdef, state)(x, **given))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def by_hand(two, sentence):
    """One sentence [1 t d], no row around it: the mean of both directions, times √2."""
    onward, backward = two.onward(sentence), two.backward(sentence[:, ::-1])[:, ::-1]
    return (np.asarray(onward) + np.asarray(backward)) / np.sqrt(2.0)


@over_layers
def test_packed_sentences_equal_each_by_hand(name, position):
    two, x = make(name, position), random(B, T, D)
    y = compiled(name, position)(x, segment_ids=IDS)
    for row, start, stop in SENTENCES:
        want = by_hand(two, x[row : row + 1, start:stop])
        np.testing.assert_allclose(y[row : row + 1, start:stop], want, rtol=0, atol=3e-6)
    whole = compiled(name, position)(x)
    for row in range(B):
        np.testing.assert_allclose(whole[row : row + 1], by_hand(two, x[row : row + 1]), atol=3e-6)


@over_layers
def test_padding_never_shows(name, position):
    run, x = compiled(name, position), random(B, T, D)
    y, real = np.asarray(run(x, segment_ids=IDS)), IDS != 0
    other = np.where(real[..., None], x, 50.0 * random(B, T, D, seed=2))
    np.testing.assert_array_equal(np.asarray(run(other, segment_ids=IDS))[real], y[real])
    more = np.pad(other, ((0, 0), (0, 4), (0, 0)), constant_values=7.0)
    longer = run(more, segment_ids=np.pad(IDS, ((0, 0), (0, 4))))
    np.testing.assert_allclose(longer[:, :T][real], y[real], rtol=0, atol=3e-6)


@over_layers
def test_a_padding_mask_hides_what_ids_hide(name, position):
    run, x = compiled(name, position), random(B, T, D)
    ids = np.zeros((B, T), np.int32)
    ids[0, :4] = ids[1, 2:9] = ids[2, 3:5] = 1  # behind, before, and both
    by_ids = np.asarray(run(x, segment_ids=ids))
    by_mask = np.asarray(run(x, mask=ids[:, None, None, :] > 0))
    np.testing.assert_allclose(by_mask[ids > 0], by_ids[ids > 0], rtol=0, atol=3e-6)
    for_all = run(x, mask=ids[:1, None, None, :] > 0)
    alone = run(x[:, :4])
    np.testing.assert_allclose(for_all[:, :4], alone, rtol=0, atol=3e-6)


@over_layers
def test_a_hole_in_the_mask_is_read_by_nobody(name, position):
    run, x = compiled(name, position), random(B, T, D)
    visible = np.random.default_rng(3).random((B, T)) < 0.7
    y = np.asarray(run(x, segment_ids=IDS, mask=visible[:, None, None, :]))
    other = np.where(visible[..., None], x, 9.0)
    changed = np.asarray(run(other, segment_ids=IDS, mask=visible[:, None, None, :]))
    seen = visible & (IDS != 0)
    np.testing.assert_array_equal(changed[seen], y[seen])


@pytest.mark.parametrize(("name", "position"), [*LAYERS[:3]])
def test_depends_on_its_whole_segment_and_on_nothing_else(name, position):
    run, x = compiled(name, position), random(B, T, D)
    for row in range(B):

        def outputs(one, row=row):
            given = jnp.asarray(x).at[row].set(one)
            return jnp.sum(run(given, segment_ids=IDS)[row] ** 2, axis=-1)

        sensitivity = np.abs(jax.jacrev(outputs)(jnp.asarray(x[row]))).max(-1)
        ids, real = IDS[row], IDS[row] != 0
        same = ids[:, None] == ids[None, :]
        np.testing.assert_array_equal((sensitivity > 0.0)[real], (same & real[None, :])[real])


class Spy(nnx.Module):
    """A layer that notes what it is given."""

    def __init__(self):
        self.given = nnx.static({})

    def __call__(self, x, **given):
        self.given.update(given, x=x)
        return x


def spied(x, **given):
    spies = iter([Spy(), Spy()])
    both = []
    two = TwoPass(lambda: both.append(next(spies)) or both[-1])
    return two(x, **given), both[0].given, both[1].given


@pytest.mark.fast
def test_what_each_layer_is_given():
    x = random(1, T, D)
    ids = np.array([[4, 4, 4, 0, 4, 2, 2, 2, 0]], np.int32)  # padding inside a segment
    visible = np.array([[0, 1, 1, 1, 1, 1, 1, 0, 1]], bool)
    positions = np.array([[5, 6, 8, 0, 9, 1, 2, 3, 7]], np.int32)
    y, onward, backward = spied(
        x, mask=visible[:, None, None], segment_ids=ids, positions=positions, rngs=None
    )
    np.testing.assert_array_equal(onward["x"], x)
    np.testing.assert_array_equal(onward["positions"], positions)
    np.testing.assert_array_equal(onward["mask"][:, 0, 0], visible)
    order = [0, 4, 3, 2, 1, 6, 5, 7, 8]
    np.testing.assert_array_equal(backward["x"], x[:, order])
    np.testing.assert_array_equal(backward["segment_ids"], ids[:, order])
    np.testing.assert_array_equal(backward["mask"][:, 0, 0], visible[:, order])
    # The ends add up to 6 + 9 and to 1 + 2; the rest stays.
    np.testing.assert_array_equal(
        backward["positions"], [[5, 15 - 9, 15, 15 - 8, 15 - 6, 3 - 2, 3 - 1, 3, 7]]
    )
    np.testing.assert_allclose(y, np.sqrt(2.0) * x, rtol=1e-6)


@pytest.mark.parametrize("ids", [None, IDS])
def test_default_positions_count_up_in_both_layers(ids):
    x = random(B, T, D)
    _, onward, backward = spied(x, segment_ids=ids)
    both = np.broadcast_to(onward["positions"], (B, T))
    np.testing.assert_array_equal(both, backward["positions"])
    rows = np.broadcast_to(backward["positions"], (B, T))
    for row, start, stop in SENTENCES if ids is not None else [(2, 0, T)]:
        np.testing.assert_array_equal(rows[row, start:stop], np.arange(stop - start))
    assert (ids is None) == (backward["segment_ids"] is None) and backward["mask"] is None


@pytest.mark.fast
def test_mirror_against_a_loop():
    """Every row of up to three ids over five positions, every mask: 7,776 rows."""
    rows = np.array(list(itertools.product([0, 1, 2], repeat=5)), np.int32)
    masks = np.array(list(itertools.product([False, True], repeat=5)))
    ids = np.repeat(rows, len(masks), axis=0)
    visible = np.tile(masks, (len(rows), 1))
    want = np.tile(np.arange(5), (len(ids), 1))
    for row, (own, seen) in enumerate(zip(ids, visible, strict=True)):
        stretches, last_id = [], 0
        for i in np.flatnonzero(own):
            if own[i] != last_id:
                stretches.append([])
                last_id = own[i]
            if seen[i]:
                stretches[-1].append(i)
        for places in filter(None, stretches):
            stretch = np.arange(places[0], places[-1] + 1)
            want[row, stretch] = stretch[::-1]
    turn = jax.jit(runs.mirror)(ids, visible)
    np.testing.assert_array_equal(turn.source, want)
    np.testing.assert_array_equal(turn.first + turn.last, want + np.arange(5))
    twice = np.take_along_axis(np.asarray(turn.source), want, axis=1)
    np.testing.assert_array_equal(twice, np.tile(np.arange(5), (len(ids), 1)))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.ones((B, 1, T, T), bool), "mask of shape"),
        (np.ones((B, 2, 1, T), bool), "mask of shape"),
        (np.ones((B, T), bool), "rank 4"),
        (np.ones((B, 1, 1, T), np.float32), "boolean"),
    ],
)
def test_other_masks_are_refused(mask, words):
    with pytest.raises(ValueError, match=words):
        make("scaled_dot")(random(B, T, D), mask=mask)


def test_dropout_is_each_layers_own():
    two, x = make("rnn", dropout_rate=0.4), random(B, T, D)
    np.testing.assert_array_equal(two(x), make("rnn")(x))
    first, second = (two(x, rngs=nnx.Rngs(dropout=seed)) for seed in (0, 1))
    assert np.abs(first - second).max() > 1e-2
    nnx.update(two.backward, nnx.state(two.onward, nnx.Param))
    turned = np.asarray(two(x[:, ::-1], rngs=nnx.Rngs(dropout=0)))[:, ::-1]
    assert np.abs(turned - first).max() > 1e-2, "both layers drop the same elements"


def test_stands_in_an_encoder():
    config = EncoderConfig(dim=D, num_layers=2, mlp_dim=12, dtype="bfloat16", position="none")

    def make_attention(index, rngs):
        return TwoPass(
            lambda: variants.make(
                "rnn", dim=D, num_heads=2, causal=True, dtype="bfloat16", rngs=rngs
            )
        )

    encoder = Encoder(config, make_attention, rngs=nnx.Rngs(0))
    y = nnx.jit(encoder)(random(B, T, D), segment_ids=IDS)
    assert y.shape == (B, T, D) and y.dtype == jnp.bfloat16
    block = encoder.blocks[0].attention
    assert np.abs(block.onward.out.kernel[...] - block.backward.out.kernel[...]).max() > 0.1
