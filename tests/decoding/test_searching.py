"""Searching with a model: steps over caches find what full passes find."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.transformers import SIZE, make_transformer

from attention import variants
from attention.decoding.searching import Search, search

BOS, EOS, PAD = 2, 3, 0
LENGTHS = (4, 1, 6, 0)  # tokens of each source; the last row has none
DECODERS = [name for name in variants.names() if {"causal", "decode"} <= variants.get(name).MODES]


def sources() -> tuple[np.ndarray, np.ndarray]:
    ids = (np.arange(6)[None] < np.array(LENGTHS)[:, None]).astype(np.int32)
    tokens = np.random.default_rng(0).integers(4, SIZE, size=(4, 6)).astype(np.int32)
    return tokens * ids, ids


def found_by(model: nnx.Module, **how):
    structure, state = nnx.split(model)
    given = Search(BOS, EOS, PAD, max_length=7, **how)
    tokens, ids = sources()

    @jax.jit
    def run(state, tokens, ids):
        return search(nnx.merge(structure, state), tokens, segment_ids=ids, how=given)

    return jax.tree.map(np.asarray, run(state, jnp.asarray(tokens), jnp.asarray(ids)))


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("scaled_dot", "sliding_window") else pytest.param(name, marks=slow)
        for slow in (pytest.mark.slow,)
        for name in DECODERS
    ],
)
def test_caches_change_nothing(name):
    model = make_transformer(decoder=name, position="sinusoidal")
    for how in ({}, {"beam_size": 3, "length_penalty": 0.6, "num_best": 2}):
        cached, uncached = found_by(model, **how), found_by(model, use_cache=False, **how)
        np.testing.assert_array_equal(cached.tokens, uncached.tokens)
        np.testing.assert_array_equal(cached.lengths, uncached.lengths)
        np.testing.assert_allclose(cached.scores, uncached.scores, rtol=0, atol=2e-5)
        assert len(np.unique(cached.lengths)) > 1 or cached.lengths.max() == 7


def test_a_beam_of_one_is_greedy_and_more_beams_find_no_worse():
    model = make_transformer(position="sinusoidal")
    greedy, wide = found_by(model), found_by(model, beam_size=4)
    assert greedy.tokens.shape == wide.tokens.shape == (4, 1, 7)
    assert np.all(wide.scores[:3] >= greedy.scores[:3] - 1e-5)
    best = found_by(model, beam_size=4, num_best=4)
    np.testing.assert_array_equal(best.tokens[:, :1], wide.tokens)
    assert np.all(np.diff(best.scores[:3], axis=1) <= 0)


def test_a_row_without_a_source_gets_no_token_and_neighbours_do_not_matter():
    model = make_transformer(position="sinusoidal")
    found = found_by(model, beam_size=2)
    assert np.all(found.lengths[3] == 0) and np.all(found.tokens[3] == PAD)
    assert np.all(found.lengths[:3] > 0)
    tokens, ids = sources()
    alone = search(
        model,
        jnp.asarray(tokens[:1, :4]),
        segment_ids=jnp.asarray(ids[:1, :4]),
        how=Search(BOS, EOS, PAD, max_length=7, beam_size=2),
    )
    np.testing.assert_array_equal(alone.tokens[0], found.tokens[0])


def test_no_target_holds_what_only_frames_it():
    model = make_transformer(position="sinusoidal")
    found = found_by(model, beam_size=4, num_best=4)
    for row in range(3):
        for tokens, length in zip(found.tokens[row], found.lengths[row], strict=True):
            inside = tokens[:length]
            assert BOS not in inside and PAD not in inside
            assert EOS not in inside[:-1] and np.all(tokens[length:] == PAD)
