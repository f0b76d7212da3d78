"""Beam search with a length penalty, exact about what may still win.

The score of a hypothesis y is log p(y) / ((5 + |y|) / 6)^α (Wu et al. 2016, arXiv 1609.08144,
without the coverage term), |y| counting the EOS. α > 0 favours long hypotheses, α < 0 short ones.

**The width is shared.** A row has k places. A hypothesis that takes EOS keeps its place for good,
and the search goes on with the places that are left: with f hypotheses ended, the k − f best
continuations of the live ones, EOS among them, are next. So a beam of 1 is greedy decoding for
every α: its one place is either live or taken by what ended. (A search that keeps k live beams
beside what ended would let the second best token go on after the best one was EOS, and could
prefer that by a length penalty.)

**It stops** in a row once no live hypothesis can enter the `num_best`, and with the last row. No
continuation has a higher log p than what it continues, so the best that may come of it is log p
at the divisor that is kindest to a negative number: that of the row's limit for α > 0, that of one
token more for α ≤ 0.

**What was cut** by the limit ranks behind all that ended: its log p lacks an EOS that the model
did not want to give, and with α > 0 a loop of sure repetitions would win otherwise.

Relative to the paper: no pruning by a threshold, no coverage penalty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention.decoding.arguments import check_beam, check_search, check_vocabulary
from attention.decoding.decoded import Decoded, State, Step
from attention.decoding.log_probabilities import MostProbable, most_probable
from attention.decoding.rows import take_rows, to_beams


class _Places(NamedTuple):
    """The k places of each row.

    Live places are in falling order of their scores, as they are filled in that order.

    Attributes:
        last: what the next step reads.
        scores: log p, not divided; −inf where a place is empty.
        ended: whether the hypothesis took EOS.
    """

    last: Int[Array, "b k"]
    tokens: Int[Array, "b k max_length"]
    lengths: Int[Array, "b k"]
    scores: Float[Array, "b k"]
    ended: Bool[Array, "b k"]

    @property
    def live(self) -> Bool[Array, "b k"]:
        return ~self.ended & (self.scores > -jnp.inf)


class _Search(NamedTuple):
    """What the loop carries; `broken` rows met logits that are no distribution."""

    time: Int[Array, ""]
    state: Any
    places: _Places
    done: Bool[Array, " b"]
    broken: Bool[Array, " b"]


class _Rules(NamedTuple):
    """What holds for a whole search; most are arguments of `beam`, padding is forbidden too.

    Attributes:
        penalties: the divisor of each length from 0.
        kindest: the length that divides a negative number most kindly; None = the next one.
    """

    limits: Int[Array, " b"]
    eos: int
    pad: int
    forbidden: tuple[int, ...]
    num_best: int
    penalties: Float[Array, " lengths"]
    kindest: Int[Array, " b"] | None

    def reached(self, length: Int[Array, ""]) -> Float[Array, "*b"]:
        """Returns the kindest divisor for what is live at a length and is to end later."""
        last = self.penalties.shape[0] - 1
        later = jnp.minimum(length + 1, last) if self.kindest is None else self.kindest
        return self.penalties[later]


class _Continued(NamedTuple):
    """The k best continuations of the live hypotheses of each row, the best first."""

    scores: Float[Array, "b k"]
    parents: Int[Array, "b k"]
    tokens: Int[Array, "b k"]
    broken: Bool[Array, " b"]


def beam(
    step: Step,
    state: State,
    *,
    start: Int[Array, " b"],
    limits: Int[Array, " b"],
    max_length: int,
    eos: int,
    pad: int,
    beam_size: int,
    length_penalty: float,
    num_best: int = 1,
    forbidden: tuple[int, ...] = (),
) -> Decoded:
    """Finds the best hypotheses of each row; the module's docstring says of what search.

    Args:
        step: see `decoded.Step`; it is called with b·k rows, the beams of a row adjacent. What it
            closes over, such as an encoder's states, must have as many: `rows.repeat_rows`.
        state: leaves lead with b, and are then repeated, or with b·k; what a step hands on
            untouched is the same for all beams of a row.
        start, limits, max_length, eos, pad, forbidden: see `greedy`.
        beam_size: k; may exceed the vocabulary.
        length_penalty: α.
        num_best: how many hypotheses, at most k.

    Returns:
        tokens [b num_best max_length], lengths and scores [b num_best], scores divided by the
        length penalty. Those that ended come first, then those that were cut at the row's limit,
        each by falling score; ties go to the shorter one, then to the one whose last token ranked
        higher (there, ties go to the better ranked parent, then to the lower id). Where there are
        fewer hypotheses than num_best, the rest have length 0 and score −inf. Where logits are
        NaN or +inf, or nothing is possible and nothing ended, the row ends before that step and
        all its scores are NaN.

    Raises:
        UserError: decode.beam_size or decode.num_best below 1, num_best above beam_size, a
            length penalty beyond float32, and what `greedy` refuses.
        ValueError: a leaf of the state that does not lead with the batch.
    """
    check_search(max_length=max_length, eos=eos, pad=pad)
    check_beam(
        beam_size=beam_size, num_best=num_best, length_penalty=length_penalty, max_length=max_length
    )
    limits = jnp.clip(limits, 0, max_length)
    rules = _Rules(
        limits=limits,
        eos=eos,
        pad=pad,
        forbidden=(*forbidden, pad),
        num_best=num_best,
        penalties=length_penalties(max_length, length_penalty),
        kindest=limits if length_penalty > 0 else None,
    )
    end = jax.lax.while_loop(
        lambda old: ~jnp.all(old.done),
        lambda old: _advance(step, old, rules),
        _Search(
            time=jnp.zeros((), jnp.int32),
            state=to_beams(state, batch=start.shape[0], beam_size=beam_size),
            places=_first_places(start, beam_size, max_length, pad),
            done=limits <= 0,
            broken=jnp.zeros(start.shape[0], bool),
        ),
    )
    return _best(end, rules.penalties, num_best, pad)


def _advance(step: Step, old: _Search, rules: _Rules) -> _Search:
    """Makes every live hypothesis one token longer, or ends it."""
    batch, beam_size = old.places.last.shape
    logits, state = step(old.state, old.places.last.reshape(batch * beam_size))
    check_vocabulary(logits.shape[-1], eos=rules.eos, forbidden=rules.forbidden)
    count = min(beam_size, logits.shape[-1])
    found = most_probable(logits.astype(jnp.float32), count, forbidden=rules.forbidden)
    continued = _continue(old.places, found)
    broken = continued.broken & ~old.done
    moves = ~old.done & ~broken
    places, parents = _fill(old.places, continued, moves, old.time, eos=rules.eos, pad=rules.pad)
    length = old.time + 1
    if beam_size > 1:
        rows = (jnp.arange(batch)[:, None] * beam_size + parents).reshape(batch * beam_size)
        state = jax.tree.map(lambda new, was: _moved(new, was, rows), state, old.state)
    decided = _decided(places, rules.penalties, rules.reached(length), rules.num_best)
    done = old.done | broken | ~jnp.any(places.live, axis=1) | (length >= rules.limits) | decided
    return _Search(length, state, places, done, old.broken | broken)


def _moved(new: Array, was: Array, rows: Int[Array, " n"]) -> Array:
    """The leaf of each place's parent. What the step hands on untouched (the keys and values of a
    source) never differed between the beams of a row."""
    return new if new is was else take_rows(new, rows)


def length_penalties(max_length: int, alpha: float) -> Float[Array, " lengths"]:
    """The divisor of each length from 0 to max_length.

    A table, since a power computed in float32 need not rise evenly with the length, and what may
    still win depends on that.
    """
    return jnp.asarray([((5 + n) / 6) ** alpha for n in range(max_length + 1)], jnp.float32)


def _first_places(start: Array, beam_size: int, max_length: int, pad: int) -> _Places:
    """One live hypothesis a row, the empty one; the other places wait for its continuations."""
    shape = (start.shape[0], beam_size)
    first = jnp.arange(beam_size)[None] == 0
    return _Places(
        last=jnp.broadcast_to(start.astype(jnp.int32)[:, None], shape),
        tokens=jnp.full((*shape, max_length), pad, jnp.int32),
        lengths=jnp.zeros(shape, jnp.int32),
        scores=jnp.broadcast_to(jnp.where(first, 0.0, -jnp.inf), shape).astype(jnp.float32),
        ended=jnp.zeros(shape, bool),
    )


def _continue(places: _Places, found: MostProbable) -> _Continued:
    """Ranks the continuations of all live hypotheses of a row against each other.

    k of the tokens of each are enough; and far fewer numbers than k times the vocabulary.
    """
    live = places.live
    batch, beam_size = live.shape
    count = found.tokens.shape[-1]
    gained = found.log_probabilities.reshape(batch, beam_size, count)
    totals = jnp.where(live[..., None], places.scores[..., None] + gained, -jnp.inf)
    scores, index = jax.lax.top_k(totals.reshape(batch, beam_size * count), beam_size)
    tokens = found.tokens.reshape(batch, beam_size * count)
    no_distribution = jnp.any(live & found.broken.reshape(batch, beam_size), axis=1)
    nothing = (scores[:, 0] == -jnp.inf) & ~jnp.any(places.ended, axis=1)
    return _Continued(
        scores=scores,
        parents=index // count,
        tokens=jnp.take_along_axis(tokens, index, axis=1),
        broken=no_distribution | nothing,
    )


def _fill(
    old: _Places,
    continued: _Continued,
    moves: Bool[Array, " b"],
    time: Int[Array, ""],
    *,
    eos: int,
    pad: int,
) -> tuple[_Places, Int[Array, "b k"]]:
    """Puts the best continuations into the places of rows that move which nothing ended in.

    Returns:
        The places, and which place each one continues.
    """
    changes = moves[:, None] & ~old.ended
    # The i-th place that is free takes the i-th best continuation.
    rank = jnp.maximum(jnp.cumsum(~old.ended, axis=1) - 1, 0)
    scores, parents, tokens = (
        jnp.take_along_axis(x, rank, axis=1)
        for x in (continued.scores, continued.parents, continued.tokens)
    )
    here = jnp.broadcast_to(jnp.arange(rank.shape[1])[None], rank.shape)
    parents = jnp.where(changes, parents, here)
    scores = jnp.where(changes, scores, old.scores)
    ends = changes & (tokens == eos) & (scores > -jnp.inf)
    history = jnp.take_along_axis(old.tokens, parents[..., None], axis=1)
    # A row that is done keeps what it has: its limit may have cut a live hypothesis.
    column = jnp.where(changes, tokens, pad)
    return _Places(
        # Places that do not change go on being computed; EOS is an id that any model can read.
        last=jnp.where(changes & ~ends, tokens, eos),
        tokens=history.at[:, :, time].set(column),
        lengths=jnp.where(changes, time + 1, old.lengths),
        scores=scores,
        ended=old.ended | ends,
    ), parents


def _decided(
    places: _Places,
    penalties: Float[Array, " lengths"],
    reached: Float[Array, "*b"],
    num_best: int,
) -> Bool[Array, " b"]:
    """Whether `num_best` hypotheses ended that no live one can outdo; ties go to the shorter."""
    scores = places.scores / penalties[places.lengths]
    ended = jnp.where(places.ended, scores, -jnp.inf)
    worst = jax.lax.top_k(ended, num_best)[0][:, -1]
    hope = jnp.max(jnp.where(places.live, places.scores, -jnp.inf), axis=1) / reached
    return (worst > -jnp.inf) & (worst >= hope)


def _best(end: _Search, penalties: Float[Array, " lengths"], num_best: int, pad: int) -> Decoded:
    """The hypotheses of each row in order: those that ended, those that were cut, no more."""
    places = end.places
    empty = places.scores == -jnp.inf
    lengths = jnp.where(empty, 0, places.lengths)
    scores = places.scores / penalties[lengths]
    group = jnp.where(places.ended, 0, jnp.where(empty, 2, 1))
    order = jnp.lexsort((lengths, -scores, group), axis=1)[:, :num_best]
    lengths = jnp.take_along_axis(lengths, order, axis=1)
    tokens = jnp.take_along_axis(places.tokens, order[..., None], axis=1)
    inside = jnp.arange(tokens.shape[-1])[None, None] < lengths[..., None]
    scores = jnp.take_along_axis(scores, order, axis=1)
    return Decoded(
        jnp.where(inside, tokens, pad),
        lengths,
        jnp.where(end.broken[:, None], jnp.nan, scores),
    )
