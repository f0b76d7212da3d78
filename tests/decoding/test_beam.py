"""Beam search against brute force and against a slow beam search in plain Python."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding.toy import (
    CLOSE,
    brute_force,
    first_state,
    hypotheses,
    make_step,
    node_of,
    penalty,
    random_table,
    slow_beam,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.decoding.beam import beam
from attention.decoding.forced import forced_scores
from attention.decoding.greedy import greedy

VOCABULARY, DEPTH, EOS, PAD = 4, 5, 3, -1
ALPHAS = (0.0, 0.6, 1.0, -0.5)


@functools.partial(
    jax.jit, static_argnames=("beam_size", "length_penalty", "num_best", "forbidden")
)
def search(table, limits, **options):
    rows = table.shape[0]
    start = jnp.zeros(rows, jnp.int32)
    return beam(
        make_step(table),
        first_state(rows),
        start=start,
        limits=limits,
        max_length=DEPTH,
        eos=EOS,
        pad=PAD,
        **options,
    )


def table_of(*rows):
    """Logits of whole tables that are zero but for {prefix: probabilities}, one a row."""
    table = random_table(0, rows=len(rows), vocabulary=VOCABULARY, depth=DEPTH) * 0
    for row, given_rows in enumerate(rows):
        for prefix, probabilities in given_rows.items():
            table[row, node_of(prefix, VOCABULARY)] = np.log(np.maximum(probabilities, 1e-300))
    return jnp.asarray(table)


def assert_same(got, want):
    assert [tokens for _, tokens in got] == [tokens for _, tokens in want]
    np.testing.assert_allclose([s for s, _ in got], [s for s, _ in want], rtol=2e-6, atol=2e-6)


# The next test has every α with a beam of 64; this one has 1,024 places.
@pytest.mark.parametrize(
    "alpha", [pytest.param(a, marks=pytest.mark.slow if a in (0.0, 1.0) else ()) for a in ALPHAS]
)
def test_a_full_beam_is_brute_force(alpha):
    limits = [5, 4, 1]
    table = random_table(1, rows=3, vocabulary=VOCABULARY, depth=DEPTH, scale=1.0)
    options = {"beam_size": VOCABULARY**DEPTH, "length_penalty": alpha}
    every = search(table, jnp.array(limits), num_best=400, **options)
    for row, limit in enumerate(limits):
        want = brute_force(table[row], limit=limit, alpha=alpha, eos=EOS)
        assert len({score for score, _ in want}) == len(want)
        assert_same(hypotheses(every, row), want)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_full_beam_is_brute_force_on_many_models(alpha):
    """Sure models and vague ones, where the best hypothesis has every length; it stops early."""
    tables = np.concatenate(
        [
            random_table(seed, rows=10, vocabulary=VOCABULARY, depth=3, scale=scale)
            for seed, scale in enumerate((0.3, 1.0, 3.0))
        ]
    )
    limits = np.resize([3, 2, 3], len(tables))
    found = search(tables, jnp.asarray(limits), beam_size=64, length_penalty=alpha, num_best=2)
    lengths = set()
    for row, limit in enumerate(limits):
        want = brute_force(tables[row], limit=limit, alpha=alpha, eos=EOS)[:2]
        assert_same(hypotheses(found, row), want)
        lengths.add(len(want[0][1]))
    assert len(lengths) == 3


@pytest.mark.parametrize(
    ("beam_size", "num_best", "alpha", "forbidden"),
    [
        (1, 1, -2.0, ()),
        (2, 1, 0.6, ()),
        pytest.param(2, 2, -0.5, (), marks=pytest.mark.slow),
        (3, 2, 3.0, (0, 2)),
        (5, 1, -2.0, ()),
        pytest.param(5, 5, 0.0, (), marks=pytest.mark.slow),
        (7, 3, 0.6, (1,)),
    ],
)
@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 0.5, 2.0, 6.0]),
    limits=st.lists(st.integers(0, DEPTH), min_size=8, max_size=8),
)
def test_any_beam_is_the_slow_one(seed, scale, limits, beam_size, num_best, alpha, forbidden):
    """With scale 0 all tokens tie; the slow search never stops early."""
    table = random_table(seed, rows=8, vocabulary=VOCABULARY, depth=DEPTH, scale=scale)
    options = {"beam_size": beam_size, "forbidden": forbidden}
    found = search(table, jnp.array(limits), length_penalty=alpha, num_best=num_best, **options)
    for row, limit in enumerate(limits):
        want, distance = slow_beam(table[row], limit=limit, alpha=alpha, eos=EOS, **options)
        if distance > CLOSE or scale == 0.0:
            assert_same(hypotheses(found, row), want[:num_best])


@functools.cache
def greedy_of_many():
    """A table of 200 rows, their limits, and what greedy decoding finds for them."""
    table = random_table(2, rows=200, vocabulary=VOCABULARY, depth=DEPTH, scale=1.0)
    limits = jnp.arange(200) % (DEPTH + 1)
    options = {"start": jnp.zeros(200, jnp.int32), "limits": limits, "eos": EOS, "pad": PAD}
    return table, limits, greedy(make_step(table), first_state(200), max_length=DEPTH, **options)


@pytest.mark.parametrize("alpha", [-2.0, 0.0, 5.0])
def test_a_beam_of_one_is_greedy(alpha):
    table, limits, want = greedy_of_many()
    found = search(table, limits, beam_size=1, length_penalty=alpha)
    np.testing.assert_array_equal(found.tokens[:, 0], want.tokens)
    np.testing.assert_array_equal(found.lengths[:, 0], want.lengths)
    assert {0, 1, 3, 5} <= set(np.asarray(want.lengths).tolist())
    penalties = np.array([penalty(int(n), alpha) for n in want.lengths])
    np.testing.assert_allclose(found.scores[:, 0], want.scores / penalties, rtol=2e-6)
    if alpha == 0.0:
        np.testing.assert_array_equal(found.scores[:, 0], want.scores)


def test_ties_go_to_the_shorter_and_to_the_lower_id():
    table = jnp.zeros((1, 341, VOCABULARY))
    found = search(table, jnp.array([2]), beam_size=16, length_penalty=0.0, num_best=16)
    tokens = [tokens for _, tokens in hypotheses(found, 0)]
    cut = [(a, b) for a in range(3) for b in range(3)]
    assert tokens == [(3,), (0, 3), (1, 3), (2, 3), *cut]
    # Half of it ends at once, and the other half, which has the lower id, at step 2.
    table = table_of({(): [0.5, 0.0, 0.0, 0.5], (0,): [0.0, 0.0, 0.0, 1.0]})
    found = search(table, jnp.array([2]), beam_size=2, length_penalty=0.0, num_best=2)
    assert [tokens for _, tokens in hypotheses(found, 0)] == [(3,), (0, 3)]


@pytest.mark.fast
def test_a_long_one_may_win_late_with_a_positive_penalty():
    """The short one ends at step 1, and is better until the long one is divided at its end."""
    rows = {(): [0.45, 0.01, 0.01, 0.53]}
    rows |= {(0,) * n: [0.97, 0.01, 0.01, 0.01] for n in range(1, 4)}
    rows[(0, 0, 0, 0)] = [0.01, 0.01, 0.01, 0.97]
    for alpha, best in ((0.0, (3,)), (1.0, (0, 0, 0, 0, 3)), (-1.0, (3,))):
        found = search(table_of(rows), jnp.array([5]), length_penalty=alpha, beam_size=2)
        assert [tokens for _, tokens in hypotheses(found, 0)] == [best]


@pytest.mark.fast
def test_a_probable_one_may_win_with_a_negative_penalty():
    """It has no hope at the limit's divisor, and wins at that of the next step."""
    table = table_of({(): [0.65, 0.02, 0.01, 0.32], (0,): [0.001, 0.001, 0.001, 0.997]})
    found = search(table, jnp.array([5]), length_penalty=-2.0, beam_size=2)
    assert [tokens for _, tokens in hypotheses(found, 0)] == [(0, 3)]


CALLS = []


@functools.partial(jax.jit, static_argnames=("length_penalty", "num_best"))
def counted_search(table, limits, **options):
    step = make_step(table)

    def counted(state, tokens):
        jax.debug.callback(lambda: CALLS.append(1))
        return step(state, tokens)

    start = jnp.zeros(2, jnp.int32)
    options |= {"start": start, "limits": limits, "max_length": DEPTH, "eos": EOS, "pad": PAD}
    return beam(counted, first_state(2), beam_size=2, **options)


def count_steps(table, limits, **options):
    """How often the step is called in a search."""
    CALLS.clear()
    jax.block_until_ready(counted_search(table, jnp.array(limits), **options))
    jax.effects_barrier()
    return len(CALLS)


def test_it_stops_as_soon_as_nothing_can_win_and_with_the_last_row():
    sure = {(): [0.01, 0.01, 0.01, 0.97]}
    slow = {(0,) * n: [0.97, 0.01, 0.01, 0.01] for n in range(2)}
    slow[(0, 0)] = [0.01, 1e-9, 1e-9, 0.99]
    options = {"length_penalty": 0.6, "num_best": 1}
    table = table_of(sure, slow)
    assert count_steps(table, [5, 0], **options) == 1
    assert count_steps(table, [0, 5], **options) == 3
    assert count_steps(table, [5, 5], **options) == 3
    assert count_steps(table, [5, 2], **options) == 2
    assert count_steps(table, [0, 0], **options) == 0
    # What a live one of 0.45 may come to depends on its row's own limit.
    near = table_of({(): [0.45, 0.01, 0.01, 0.53]}, sure)
    assert count_steps(near, [2, 0], **options) == 1
    assert count_steps(near, [5, 0], **options) > 1
    # Two hypotheses are wanted, and the second one is not decided at step 1.
    assert count_steps(table, [5, 0], length_penalty=0.6, num_best=2) > 1
    # With a negative penalty the next step is the kindest, and it is none for what is behind.
    assert count_steps(near, [5, 0], length_penalty=-0.5, num_best=1) == 1


@pytest.mark.fast
def test_a_model_that_never_ends_gives_all_tokens_up_to_the_limit():
    """And the step is not called more often than a cache of max_length allows."""
    seen = []

    def step(state, tokens):
        jax.debug.callback(lambda time: seen.append(int(time)), state["time"][0])
        logits = jnp.broadcast_to(jnp.array([0.0, 3.0, 1.0, -50.0]), (tokens.shape[0], 4))
        return logits, {"time": state["time"] + 1}

    found = beam(
        step,
        {"time": jnp.zeros(2, jnp.int32)},
        start=jnp.zeros(2, jnp.int32),
        limits=jnp.array([8, 100]),
        max_length=8,
        eos=EOS,
        pad=0,
        beam_size=2,
        length_penalty=0.6,
    )
    jax.effects_barrier()
    assert found.lengths.tolist() == [[8], [8]]
    np.testing.assert_array_equal(found.tokens, np.ones((2, 1, 8)))
    assert seen == list(range(8))


def test_each_hypothesis_has_at_most_one_eos_and_it_is_last():
    table = random_table(3, rows=40, vocabulary=VOCABULARY, depth=DEPTH, scale=1.0)
    limits = jnp.arange(40) % DEPTH + 1
    found = search(table, limits, beam_size=6, length_penalty=0.6, num_best=6)
    tokens, lengths = np.asarray(found.tokens), np.asarray(found.lengths)
    assert (lengths <= np.asarray(limits)[:, None]).all()
    ended = 0
    for index in np.ndindex(lengths.shape):
        inside, after = np.split(tokens[index], [lengths[index]])
        assert (after == PAD).all() and PAD not in inside
        assert EOS not in inside[:-1]
        ended += EOS in inside
    assert 40 < ended < lengths.size
    # No two are the same.
    for row in range(40):
        of_row = [tokens for _, tokens in hypotheses(found, row)]
        assert len(set(of_row)) == len(of_row)


def test_scores_are_those_of_a_forced_pass():
    table = random_table(4, rows=20, vocabulary=VOCABULARY, depth=DEPTH)
    limits = jnp.arange(20) % (DEPTH + 1)
    found = search(table, limits, beam_size=3, length_penalty=0.6, forbidden=(1,))
    forced = forced_scores(
        make_step(table),
        first_state(20),
        found.tokens[:, 0],
        found.lengths[:, 0],
        start=jnp.zeros(20, jnp.int32),
    )
    penalties = np.array([penalty(int(n), 0.6) for n in found.lengths[:, 0]])
    np.testing.assert_allclose(found.scores[:, 0], forced / penalties, rtol=1e-6, atol=1e-6)
