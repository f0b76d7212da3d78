"""Searching with a model: steps over caches find what full passes find."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding.toy import CLOSE, hypotheses, penalty, slow_beam
from flax import nnx
from support.transformers import DIM, HEADS, SIZE, compiled, jiggle, make_transformer

from attention import variants
from attention.decoding.searching import Search, search
from attention.errors import UserError
from attention.models.recurrence import RecurrentConfig
from attention.models.recurrent_seq2seq import RecurrentSeq2Seq

BOS, EOS, PAD = 2, 3, 0
LONGEST = 7
LENGTHS = (4, 1, 6, 0)  # tokens of each source; the last row has none
CROSS = [name for name in variants.names() if {"cross", "decode"} <= variants.get(name).MODES]
CAUSAL = [name for name in variants.names() if "causal" in variants.get(name).MODES]
DECODERS = [name for name in CAUSAL if "decode" in variants.get(name).MODES]


def sources() -> tuple[np.ndarray, np.ndarray]:
    ids = (np.arange(6)[None] < np.array(LENGTHS)[:, None]).astype(np.int32)
    tokens = np.random.default_rng(0).integers(4, SIZE, size=(4, 6)).astype(np.int32)
    return tokens * ids, ids


def found_by(model: nnx.Module, *, rows=slice(None), seed: int | None = None, **how):
    structure, state = nnx.split(model)
    given = Search(BOS, EOS, PAD, max_length=LONGEST, **how)
    tokens, ids = (jnp.asarray(array[rows]) for array in sources())
    keys = None if seed is None else jax.random.split(jax.random.key(seed), 4)[rows]

    @jax.jit
    def run(state, tokens, ids, keys):
        model = nnx.merge(structure, state)
        return search(model, tokens, segment_ids=ids, how=given, keys=keys)

    return jax.tree.map(np.asarray, run(state, tokens, ids, keys))


WIDE = {"beam_size": 3, "length_penalty": 0.6, "num_best": 2}


@functools.cache
def model_of(decoder: str = "scaled_dot", cross: str = "scaled_dot") -> nnx.Module:
    return make_transformer(decoder=decoder, cross=cross, position="sinusoidal")


@functools.cache
def shared(decoder: str = "scaled_dot", cross: str = "scaled_dot", **how):
    """`found_by`, once: a search takes seconds to compile."""
    return found_by(model_of(decoder, cross), **how)


def assert_same(cached, uncached) -> None:
    np.testing.assert_array_equal(cached.tokens, uncached.tokens)
    np.testing.assert_array_equal(cached.lengths, uncached.lengths)
    np.testing.assert_allclose(cached.scores, uncached.scores, rtol=0, atol=2e-5)
    # The last row has no source, and never a token.
    lengths = cached.lengths[:3]
    assert len(np.unique(lengths)) > 1 or lengths.max() == LONGEST


def two_ways(names: list[str], *quick: str) -> list:
    """Each by one beam and by several; only the quick ones by default, and by several."""
    return [
        pytest.param(
            name,
            how,
            marks=() if name in quick and how else pytest.mark.slow,
            id=f"{name}-{'beam' if how else 'greedy'}",
        )
        for name in names
        for how in ({}, WIDE)
    ]


@pytest.mark.parametrize(
    ("name", "how"), two_ways(DECODERS, "scaled_dot", "sliding_window", "mla", "rnn")
)
def test_caches_change_nothing(name, how):
    assert_same(shared(name, **how), shared(name, use_cache=False, **how))


@pytest.mark.parametrize(("name", "how"), two_ways(CROSS, "location_sensitive", "monotonic"))
def test_caches_change_nothing_whatever_reads_the_source(name, how):
    places = ("scaled_dot", name)
    assert_same(shared(*places, **how), shared(*places, use_cache=False, **how))


def make_recurrent(attention: str | None, pointer: str) -> RecurrentSeq2Seq:
    def layer(layer_index, rngs):
        return variants.make(attention, dim=DIM, num_heads=HEADS, rngs=rngs)

    model = RecurrentSeq2Seq(
        RecurrentConfig(DIM),
        layer if attention else None,
        source_size=SIZE,
        target_size=SIZE,
        pointer=pointer,
        end_id=EOS,
        rngs=nnx.Rngs(0),
    )
    jiggle(model)
    return model


@pytest.mark.parametrize(
    ("attention", "pointer"),
    [
        ("additive", "none"),
        (None, "none"),
        ("location_sensitive", "none"),
        ("monotonic", "none"),
        ("additive", "alone"),
        ("additive", "mixed"),
    ],
)
def test_states_of_a_recurrent_model_change_nothing(attention, pointer):
    model = make_recurrent(attention, pointer)
    assert_same(found_by(model, **WIDE), found_by(model, use_cache=False, **WIDE))


@pytest.mark.parametrize("name", sorted(set(CAUSAL) - set(DECODERS)))
def test_a_decoder_without_a_cache_searches_by_full_passes(name):
    """Against a beam search in plain Python, whose every step is a pass over the target so far."""
    model = model_of(name)
    with pytest.raises(ValueError, match="cannot decode"):
        found_by(model, **WIDE)
    found, full_pass = found_by(model, use_cache=False, **WIDE), compiled(model)
    tokens, ids = sources()
    for row in range(3):

        def logits_after(prefix, row=row):
            inputs = np.full((1, LONGEST), PAD, np.int32)
            inputs[0, : len(prefix) + 1] = (BOS, *prefix)
            one = {"source_segment_ids": ids[row, None], "target_segment_ids": inputs != PAD}
            return full_pass(tokens[row, None], inputs, **one)[0, len(prefix)]

        given = {"beam_size": WIDE["beam_size"], "alpha": WIDE["length_penalty"]}
        want, distance = slow_beam(
            logits_after, limit=LONGEST, eos=EOS, forbidden=(PAD, BOS), **given
        )
        assert distance > CLOSE
        got = hypotheses(found, row)
        assert [t for _, t in got] == [t for _, t in want[:2]]
        np.testing.assert_allclose([s for s, _ in got], [s for s, _ in want[:2]], atol=2e-5)


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_table_of_positions_that_ends_before_is_named(use_cache):
    model = make_transformer(position="learned", max_length=6)
    with pytest.raises(UserError, match=r"position 6 is past .* model\.position='learned', 5"):
        found_by(model, use_cache=use_cache)


def test_a_beam_of_one_is_greedy_and_more_beams_find_no_worse():
    greedy, wide = shared(), shared(beam_size=4)
    assert greedy.tokens.shape == wide.tokens.shape == (4, 1, 7)
    assert np.all(wide.scores[:3] >= greedy.scores[:3] - 1e-5)
    best = shared(beam_size=4, num_best=4)
    np.testing.assert_array_equal(best.tokens[:, :1], wide.tokens)
    assert np.all(np.diff(best.scores[:3], axis=1) <= 0)


def test_a_greedy_score_is_divided_by_the_penalty_too():
    plain, divided = shared(), shared(length_penalty=0.6)
    np.testing.assert_array_equal(plain.tokens, divided.tokens)
    penalties = np.vectorize(penalty)(plain.lengths[:3], 0.6)
    np.testing.assert_allclose(divided.scores[:3], plain.scores[:3] / penalties, rtol=1e-6)
    assert np.all(penalties > 1)


def test_a_row_without_a_source_gets_no_token_and_neighbours_do_not_matter():
    found = shared(**WIDE)
    assert np.all(found.lengths[3] == 0) and np.all(found.tokens[3] == PAD)
    assert np.all(found.lengths[:3] > 0)
    tokens, ids = sources()
    how = Search(BOS, EOS, PAD, max_length=7, **WIDE)
    # The first row, without what padded it.
    alone = jax.jit(lambda tokens, ids: search(model_of(), tokens, segment_ids=ids, how=how))(
        *(jnp.asarray(tokens[:1, :4]), jnp.asarray(ids[:1, :4]))
    )
    np.testing.assert_array_equal(alone.tokens[0], found.tokens[0])


def test_no_target_holds_what_only_frames_it():
    found = shared(beam_size=4, num_best=4)
    for row in range(3):
        for tokens, length in zip(found.tokens[row], found.lengths[row], strict=True):
            inside = tokens[:length]
            assert BOS not in inside and PAD not in inside
            assert EOS not in inside[:-1] and np.all(tokens[length:] == PAD)


DRAWN = {"temperature": 1.5, "num_best": 3}


def test_draws_follow_their_keys_and_neither_caches_nor_neighbours():
    model = make_transformer(position="sinusoidal")
    drawn = found_by(model, seed=0, **DRAWN)
    assert drawn.tokens.shape == (4, 3, 7) and np.all(drawn.lengths[3] == 0)
    for again in (
        found_by(model, seed=0, **DRAWN, use_cache=False).tokens,
        found_by(model, seed=0, temperature=1.5, num_best=4).tokens[:, :3],
    ):
        np.testing.assert_array_equal(again, drawn.tokens)
    alone = found_by(model, seed=0, **DRAWN, rows=slice(2, 3))
    np.testing.assert_array_equal(alone.tokens[0], drawn.tokens[2])
    assert np.any(drawn.tokens[:3, 0] != drawn.tokens[:3, 1])
    assert np.any(found_by(model, seed=1, **DRAWN).tokens != drawn.tokens)


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}])
def test_what_leaves_one_token_is_greedy(options):
    model = make_transformer(position="sinusoidal")
    drawn = found_by(model, seed=0, temperature=2.0, **options)
    np.testing.assert_array_equal(drawn.tokens, found_by(model).tokens)


def test_drawing_needs_keys_and_no_beam():
    model = make_transformer(position="sinusoidal")
    with pytest.raises(UserError, match=r"temperature=1\.0 draws .* decode\.beam_size=2 searches"):
        found_by(model, seed=0, temperature=1.0, beam_size=2)
    with pytest.raises(ValueError, match="drawing needs keys"):
        found_by(model, temperature=1.0)
