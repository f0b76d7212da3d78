"""Draws have the frequencies of the distribution, and nothing outside of its part is drawn."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding.toy import first_state, log_probability, make_step, random_table

from attention.decoding.forced import forced_scores
from attention.decoding.greedy import greedy
from attention.decoding.sampling import draw, sample

PROBABILITIES = np.array([0.04, 0.3, 0.16, 0.0, 0.4, 0.1])
DRAWS = 100_000


def frequencies(probabilities, **options):
    logits = jnp.log(jnp.asarray(probabilities, jnp.float32))
    keys = jax.random.split(jax.random.key(1), DRAWS)
    logits = jnp.broadcast_to(logits[None], (DRAWS, len(probabilities)))
    drawn = jax.jit(lambda x, k: draw(x, k, **options))(logits, keys)
    return np.bincount(drawn, minlength=len(probabilities)) / DRAWS


def assert_frequencies(got, want):
    """Within five standard deviations, and never where the probability is zero."""
    want = np.asarray(want, np.float64)
    want = want / want.sum()
    assert (got[want == 0] == 0).all()
    assert (np.abs(got - want) <= 5 * np.sqrt(want * (1 - want) / DRAWS)).all()


def nucleus(probabilities, top_p):
    """The fewest most probable ones that sum to top_p, the others at zero."""
    kept = np.zeros_like(probabilities)
    for token in np.argsort(-probabilities, kind="stable"):
        if kept.sum() < top_p:
            kept[token] = probabilities[token]
    return kept


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_frequencies_at_a_temperature(temperature):
    got = frequencies(PROBABILITIES, temperature=temperature)
    assert_frequencies(got, PROBABILITIES ** (1 / temperature))


@pytest.mark.parametrize("top_k", [1, 2, 4, 100])
def test_frequencies_of_top_k(top_k):
    kept = np.zeros(6)
    kept[np.argsort(-PROBABILITIES)[:top_k]] = 1
    assert_frequencies(frequencies(PROBABILITIES, top_k=top_k), PROBABILITIES * kept)


@pytest.mark.parametrize(
    "top_p",
    [1e-6, 0.41, 0.97, 1, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.39, 0.71, 0.95))],
)
def test_frequencies_of_the_nucleus(top_p):
    assert_frequencies(frequencies(PROBABILITIES, top_p=top_p), nucleus(PROBABILITIES, top_p))


def test_frequencies_of_temperature_then_top_k_then_top_p():
    """The nucleus is of what temperature and top_k left."""
    warm = PROBABILITIES**0.5
    warm[[0, 5]] = 0.0
    for top_p, count in ((0.7, 2), (0.77, 3)):
        kept = nucleus(warm / warm.sum(), top_p)
        assert np.count_nonzero(kept) == count
        got = frequencies(PROBABILITIES, temperature=2.0, top_k=3, top_p=top_p)
        assert_frequencies(got, kept)


def test_ties_go_to_the_lower_ids():
    even = np.full(4, 0.25)
    assert_frequencies(frequencies(even, temperature=0), [1, 0, 0, 0])
    assert_frequencies(frequencies(even, top_k=2), [1, 1, 0, 0])
    # An exact sum of the first two is enough.
    assert_frequencies(frequencies(even, top_p=0.5), [1, 1, 0, 0])
    assert_frequencies(frequencies(even, top_p=0.51), [1, 1, 1, 0])


def test_a_top_p_of_one_is_no_restriction():
    """The same draws, not just the same distribution."""
    logits = jnp.log(jnp.asarray(PROBABILITIES, jnp.float32))
    logits = jnp.broadcast_to(logits[None], (500, 6))
    keys = jax.random.split(jax.random.key(2), 500)
    np.testing.assert_array_equal(draw(logits, keys, top_p=1.0), draw(logits, keys))
    assert (np.asarray(draw(logits, keys, top_p=0.999)) != draw(logits, keys)).any()


@functools.partial(jax.jit, static_argnames=("pad", "temperature", "top_k", "top_p", "forbidden"))
def run(table, limits, *, pad=-1, key=None, **options):
    rows = table.shape[0]
    return sample(
        make_step(table),
        first_state(rows),
        start=jnp.zeros(rows, jnp.int32),
        limits=limits,
        max_length=5,
        eos=3,
        pad=pad,
        key=jax.random.key(0) if key is None else key,
        **options,
    )


def test_whole_sequences_have_the_frequencies_of_the_model():
    table = random_table(1, rows=1, vocabulary=4, depth=2, scale=1.0)
    rows = 60_000
    plain = make_step(table)
    state = first_state(rows) | {"row": jnp.zeros(rows, jnp.int32)}
    found = jax.jit(
        lambda key: sample(
            plain,
            state,
            start=jnp.zeros(rows, jnp.int32),
            limits=jnp.full(rows, 2),
            max_length=2,
            eos=3,
            pad=-1,
            key=key,
        )
    )(jax.random.key(3))
    for tokens in [(3, -1), *itertools.product(range(3), range(4))]:
        want = np.exp(log_probability(table[0], tokens[: 1 + (tokens[0] != 3)]))
        got = np.mean((np.asarray(found.tokens) == tokens).all(axis=1))
        assert abs(got - want) <= 5 * np.sqrt(want * (1 - want) / rows)


@functools.cache
def greedy_of_many():
    """A table of 50 rows, their limits, and what greedy decoding finds for them."""
    table = random_table(2, rows=50, vocabulary=4, depth=5, scale=1.0)
    limits = jnp.arange(50) % 6
    options = {"start": jnp.zeros(50, jnp.int32), "limits": limits, "eos": 3, "pad": -1}
    return table, limits, greedy(make_step(table), first_state(50), max_length=5, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0, "top_k": 2},
        {"temperature": 5e-324},
        pytest.param({"temperature": 1e-30}, marks=pytest.mark.slow),
        {"top_k": 1},
    ],
)
def test_the_coldest_draw_is_greedy(options):
    table, limits, want = greedy_of_many()
    found = run(table, limits, **options)
    for got, other in zip(found, want, strict=True):
        np.testing.assert_array_equal(got, other)


def test_a_sampled_eos_stays_and_ends_the_row():
    table = random_table(3, rows=300, vocabulary=4, depth=5, scale=0.5)
    limits = jnp.arange(300) % 6
    found = run(table, limits, pad=0, forbidden=(2,))
    tokens, lengths = np.asarray(found.tokens), np.asarray(found.lengths)
    for row in range(300):
        inside, after = np.split(tokens[row], [lengths[row]])
        assert set(inside) <= {1, 3} and 3 not in inside[:-1]
        assert (after == 0).all()
        assert len(inside) == limits[row] or inside[-1] == 3
    assert set(lengths) == {0, 1, 2, 3, 4, 5}


def test_scores_are_the_models_whatever_the_temperature():
    table = random_table(4, rows=50, vocabulary=4, depth=5)
    start = jnp.zeros(50, jnp.int32)
    found = run(table, jnp.full(50, 5), temperature=3.0, top_k=3, forbidden=(1,))
    want = jax.jit(forced_scores, static_argnums=0)(
        make_step(table), first_state(50), found.tokens, found.lengths, start=start
    )
    np.testing.assert_allclose(found.scores, want, rtol=1e-6, atol=1e-6)


def test_the_key_decides_and_rows_differ():
    table = np.zeros((20, 341, 4), np.float32)
    first = run(table, jnp.full(20, 5), forbidden=(3,))
    again = run(table, jnp.full(20, 5), forbidden=(3,))
    other = run(table, jnp.full(20, 5), forbidden=(3,), key=jax.random.key(1))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert (np.asarray(first.tokens) != np.asarray(other.tokens)).any(axis=1).mean() > 0.9
    # Neither do rows share their draws, nor do the steps of a row.
    assert len({tuple(row) for row in first.tokens.tolist()}) > 15
    assert (np.asarray(first.tokens) == np.asarray(first.tokens)[:, :1]).all(axis=1).mean() < 0.2


@pytest.mark.parametrize("options", [{}, pytest.param({"top_p": 0.9}, marks=pytest.mark.slow)])
def test_with_keys_of_its_own_a_row_alone_is_a_row_among_others(options):
    table = random_table(5, rows=5, vocabulary=4, depth=5, scale=0.5)
    table[2, 1:] = np.nan
    limits = jnp.array([5, 1, 5, 0, 4])
    keys = jax.random.split(jax.random.key(7), 5)
    together = run(table, limits, key=keys, **options)
    assert jnp.isnan(together.scores).tolist() == [False, False, True, False, False]
    for row in range(5):
        part = slice(row, row + 1)
        alone = run(table[part], limits[part], key=keys[part], **options)
        for got, want in zip(alone, together, strict=True):
            np.testing.assert_array_equal(got[0], want[row])
