"""Rows of a beam search do not touch each other, and its state follows the beams."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decoding.toy import first_state, hypotheses, make_step, random_table, slow_beam

from attention.decoding.beam import beam
from attention.decoding.greedy import greedy
from attention.decoding.rows import repeat_rows

OPTIONS = {"max_length": 5, "eos": 3, "pad": -1}
BEAM = OPTIONS | {"beam_size": 3, "length_penalty": 0.6, "num_best": 2}


def search(table, limits, **options):
    rows = len(table)
    start = jnp.zeros(rows, jnp.int32)
    return beam(make_step(table), first_state(rows), start=start, limits=limits, **BEAM | options)


run = jax.jit(search, static_argnames=("beam_size", "num_best", "pad", "forbidden"))


def test_a_row_alone_is_a_row_among_others():
    table = random_table(5, rows=6, vocabulary=4, depth=5, scale=1.0)
    limits = jnp.array([5, 1, 3, 0, 5, 4])
    together = run(table, limits)
    for row in range(6):
        alone = run(table[row : row + 1], limits[row : row + 1])
        for got, want in zip(alone, together, strict=True):
            np.testing.assert_array_equal(got[0], want[row])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_row_of_nan_ends_and_its_neighbours_do_not_see_it(bad, beam_size):
    table = random_table(6, rows=3, vocabulary=4, depth=5, scale=0.1)
    table[:, :, 3] = -9.0
    sound = run(table, jnp.full(3, 5), beam_size=beam_size, num_best=1)
    broken = table.copy()
    broken[1, 21:85, 0] = bad  # prefixes of three tokens
    found = run(broken, jnp.full(3, 5), beam_size=beam_size, num_best=1)
    assert found.lengths[:, 0].tolist() == [5, 3, 5]
    np.testing.assert_array_equal(jnp.isnan(found.scores[:, 0]), [False, True, False])
    np.testing.assert_array_equal(found.tokens[1, 0, 3:], [-1, -1])
    for got, want in zip(found, sound, strict=True):
        np.testing.assert_array_equal(got[::2], want[::2])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_distribution_end_every_search_alike(bad):
    table = random_table(7, rows=2, vocabulary=4, depth=5, scale=0.1)
    table[:, :, 3] = -9.0
    table[0, 5:21] = bad  # prefixes of two tokens
    table[1, 0] = bad
    start = jnp.zeros(2, jnp.int32)
    one = greedy(make_step(table), first_state(2), start=start, limits=jnp.full(2, 5), **OPTIONS)
    wide = run(table, jnp.full(2, 5), beam_size=1, num_best=1)
    assert one.lengths.tolist() == [2, 0]
    assert jnp.isnan(one.scores).all()
    np.testing.assert_array_equal(wide.tokens[:, 0], one.tokens)
    np.testing.assert_array_equal(wide.lengths[:, 0], one.lengths)
    assert jnp.isnan(wide.scores).all()


def test_what_leads_nowhere_is_dropped_where_something_ended():
    """−inf everywhere is no fault if another hypothesis of the row ended."""
    table = np.full((1, 341, 4), -np.inf, np.float32)
    table[0, 0] = np.log([0.6, 1e-30, 1e-30, 0.4])
    found = run(table, jnp.array([5]), num_best=2)
    assert found.tokens[0].tolist() == [[3, -1, -1, -1, -1], [-1] * 5]
    assert found.lengths[0].tolist() == [1, 0]
    np.testing.assert_allclose(found.scores[0], [np.log(0.4), -np.inf], rtol=1e-6)


def test_only_forbidden_tokens_left_is_nothing_left():
    """The probability of token 0 must not make it the choice."""
    table = np.full((1, 341, 4), -np.inf, np.float32)
    table[:, :, 0] = 0.0
    start = jnp.zeros(1, jnp.int32)
    options = OPTIONS | {"pad": 0}
    one = greedy(make_step(table), first_state(1), start=start, limits=start + 5, **options)
    assert one.lengths.tolist() == [0] and jnp.isnan(one.scores).all()
    wide = run(table, jnp.array([5]), pad=0)
    assert wide.lengths.tolist() == [[0, 0]] and jnp.isnan(wide.scores).all()


def test_padding_and_forbidden_tokens_never_come():
    table = random_table(8, rows=30, vocabulary=4, depth=5)
    table[:, :, 0] += 5.0
    table[:, :, 2] += 5.0
    found = run(table, jnp.full(30, 5), pad=0, forbidden=(2,), num_best=3)
    inside = np.arange(5) < np.asarray(found.lengths)[..., None]
    assert set(np.asarray(found.tokens)[inside].tolist()) == {1, 3}
    assert (np.asarray(found.tokens)[~inside] == 0).all()


def test_every_leaf_of_the_state_follows_its_beam():
    """The next token depends on what each leaf says was read so far."""
    table = random_table(9, rows=4, vocabulary=4, depth=5, scale=1.0)
    plain = make_step(table)

    def step(state, tokens):
        inner, (history, signs), time = state
        history = jnp.where(jnp.arange(6)[None] == time[:, None], tokens[:, None], history)
        logits, inner = plain(inner, tokens)
        agree = jnp.sum(history, axis=1) == signs.astype(jnp.int32) + tokens
        # A beam with another's history would be told by its logits.
        logits = jnp.where(agree[:, None], logits, -logits)
        return logits, (inner, (history, signs + tokens.astype(jnp.bfloat16)), time + 1)

    state = (
        first_state(4),
        (jnp.zeros((4, 6), jnp.int32), jnp.zeros(4, jnp.bfloat16)),
        jnp.zeros(4, jnp.int32),
    )
    limits = jnp.full(4, 5)
    start = jnp.zeros(4, jnp.int32)
    for given in (state, repeat_rows(state, 3)):
        found = jax.jit(lambda given: beam(step, given, start=start, limits=limits, **BEAM))(given)
        for row in range(4):
            want, _ = slow_beam(table[row], limit=5, alpha=0.6, eos=3, beam_size=3)
            got = hypotheses(found, row)
            assert [tokens for _, tokens in got] == [tokens for _, tokens in want[:2]]


def test_a_state_without_a_batch_is_refused():
    table = random_table(9, rows=4, vocabulary=4, depth=5)
    for wrong in (jnp.zeros(()), jnp.zeros((5, 2))):
        state = first_state(4) | {"wrong": wrong}
        with pytest.raises(ValueError, match=r"\['wrong'\].*leading axis must be the batch, 4"):
            beam(make_step(table), state, start=jnp.zeros(4, int), limits=jnp.ones(4, int), **BEAM)


def test_a_beam_wider_than_the_vocabulary():
    table = random_table(10, rows=2, vocabulary=4, depth=5)
    wide = run(table, jnp.array([1, 5]), beam_size=50, num_best=50)
    assert np.isfinite(wide.scores).sum(axis=1).tolist() == [4, 50]
    assert wide.lengths[0].tolist() == [1] * 4 + [0] * 46


def test_compiled_and_not_compiled_agree():
    table = random_table(11, rows=3, vocabulary=4, depth=5, scale=1.0)
    limits = jnp.array([5, 0, 4])
    for got, want in zip(search(table, limits), run(table, limits), strict=True):
        np.testing.assert_array_equal(got, want)


def operations(jaxpr, found=None):
    """All equations of a program and of what is inside of it."""
    found = [] if found is None else found
    for equation in jaxpr.eqns:
        found.append(equation)
        for inner in jax.tree.leaves(
            equation.params, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                operations(inner, found)
    return found


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_one_loop_and_no_sort_of_the_vocabulary(name):
    vocabulary, rows = 4000, 2

    def step(state, tokens):
        return state[tokens % 4], state

    options = {"limits": jnp.full(rows, 5), "start": jnp.zeros(rows, jnp.int32)} | OPTIONS
    if name == "beam":
        options |= {"beam_size": 4, "length_penalty": 0.6}
    decode = functools.partial({"greedy": greedy, "beam": beam}[name], step, **options)
    program = jax.make_jaxpr(decode)(jnp.zeros((4 * rows, vocabulary)))
    found = operations(program.jaxpr)
    assert [e.primitive.name for e in found].count("while") == 1
    sorts = [e for e in found if e.primitive.name in ("sort", "top_k", "argmax")]
    assert sorts
    assert all(e.invars[0].aval.shape[-1] < vocabulary // 4 for e in sorts)
