"""Greedy decoding and forced scores against plain Python."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding.toy import first_state, log_probability, make_step, random_table, slow_greedy

from attention.decoding.forced import forced_scores
from attention.decoding.greedy import greedy

pytestmark = pytest.mark.fast

EOS = 3


@functools.partial(jax.jit, static_argnames=("pad", "forbidden"))
def run(table, limits, *, pad=-1, **options):
    rows = table.shape[0]
    return greedy(
        make_step(table),
        first_state(rows),
        start=jnp.zeros(rows, jnp.int32),
        limits=limits,
        max_length=5,
        eos=EOS,
        pad=pad,
        **options,
    )


@pytest.mark.parametrize("forbidden", [(), (0, 2)])
def test_greedy_is_the_slow_one(forbidden):
    table = random_table(1, rows=60, vocabulary=4, depth=5, scale=1.0)
    limits = np.arange(60) % 6
    found = run(table, jnp.asarray(limits), forbidden=forbidden)
    cut = 0
    for row in range(60):
        score, tokens = slow_greedy(table[row], limit=limits[row], eos=EOS, forbidden=forbidden)
        assert found.tokens[row].tolist() == [*tokens, *[-1] * (5 - len(tokens))]
        assert found.lengths[row] == len(tokens)
        np.testing.assert_allclose(found.scores[row], score, rtol=2e-6, atol=1e-6)
        cut += limits[row] > 0 and EOS not in tokens
    assert 0 < cut < 50


def test_all_tokens_are_kept_up_to_the_limit_without_eos():
    table = np.zeros((2, 341, 4), np.float32)
    table[:, :, 1] = 1.0
    found = run(table, jnp.array([5, 99]), pad=0)
    assert found.tokens.tolist() == [[1] * 5] * 2
    assert found.lengths.tolist() == [5, 5]


def test_ties_go_to_the_lower_id():
    table = np.zeros((1, 341, 4), np.float32)
    assert run(table, jnp.array([2])).tokens.tolist() == [[0, 0, -1, -1, -1]]
    assert run(table, jnp.array([2]), pad=0).tokens.tolist() == [[1, 1, 0, 0, 0]]


def test_padding_is_never_decoded():
    table = np.zeros((1, 341, 4), np.float32)
    table[:, :, 0] = 5.0
    found = run(table, jnp.array([3]), pad=0)
    assert found.tokens.tolist() == [[1, 1, 1, 0, 0]]
    # Its share of the probability is not given to the others.
    np.testing.assert_allclose(found.scores, [-3 * np.log(np.exp(5) + 3)], rtol=1e-6)


def test_where_eos_is_forbidden_each_row_runs_to_its_limit():
    table = random_table(2, rows=8, vocabulary=4, depth=5)
    table[:, :, EOS] += 9.0
    limits = jnp.arange(8) % 6
    np.testing.assert_array_equal(run(table, limits, forbidden=(EOS,)).lengths, limits)


def test_the_first_token_that_is_read_is_the_start():
    def step(state, tokens):
        return jax.nn.one_hot(tokens + 1, 9), state

    found = greedy(
        step,
        (),
        start=jnp.array([4, 1]),
        limits=jnp.array([9, 2]),
        max_length=6,
        eos=7,
        pad=0,
    )
    assert found.tokens.tolist() == [[5, 6, 7, 0, 0, 0], [2, 3, 0, 0, 0, 0]]


def test_a_row_alone_is_a_row_among_others():
    table = random_table(3, rows=5, vocabulary=4, depth=5, scale=1.0)
    table[2, 1:] = np.nan
    limits = jnp.array([5, 1, 5, 0, 4])
    together = run(table, limits)
    assert jnp.isnan(together.scores).tolist() == [False, False, True, False, False]
    for row in range(5):
        alone = run(table[row : row + 1], limits[row : row + 1])
        for got, want in zip(alone, together, strict=True):
            np.testing.assert_array_equal(got[0], want[row])


def test_bfloat16_logits_are_scored_in_float32():
    table = random_table(4, rows=8, vocabulary=4, depth=5).astype(jnp.bfloat16)
    found = run(table, jnp.full(8, 5))
    want = run(table.astype(np.float32), jnp.full(8, 5))
    assert found.scores.dtype == jnp.float32
    for got, other in zip(found, want, strict=True):
        np.testing.assert_array_equal(got, other)


def test_forced_scores_are_sums_over_the_sequence():
    table = random_table(5, rows=12, vocabulary=4, depth=5)
    tokens = np.random.default_rng(0).integers(0, 3, (12, 5))
    lengths = np.arange(12) % 6
    tokens[np.arange(5)[None] >= lengths[:, None]] = -1
    found = forced_scores(
        make_step(table),
        first_state(12),
        jnp.asarray(tokens),
        jnp.asarray(lengths),
        start=jnp.zeros(12, jnp.int32),
    )
    want = [log_probability(table[i], tokens[i, : lengths[i]].tolist()) for i in range(12)]
    np.testing.assert_allclose(found, want, rtol=2e-6, atol=2e-6)
