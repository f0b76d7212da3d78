"""Blocks that see their neighbours, the ends of their segment, and some blocks at random.

Big Bird (2020), arXiv 2007.14062, section 2 and appendix D. Blocks are counted from the start of
the segment, so that where in a row a segment lies changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Int, UInt32

from attention.errors import UserError
from attention.ops.masks import Tokens
from attention.ops.selection import Blocks, Rows, past_room, places, room_for
from attention.ops.spans import same_span, spans


@dataclass(frozen=True)
class BigBird:
    """Block I sees block J of its segment iff |I − J| ≤ 1, I or J is an end, or I drew J.

    Attributes:
        size: tokens a block; the last one of a segment may have fewer.
        num_random: blocks that each block draws, see `drawn_blocks`.
        seed, layer: what the draw depends on, besides the block and how many there are.
        max_global_tokens: for how many tokens of the ends there is room; see `room_for`.
    """

    WHOLE_ROWS: ClassVar[bool] = True  # what is seen depends on all of a segment

    size: int
    num_random: int
    seed: int
    layer: int
    max_global_tokens: int | None = None

    def features(self, tokens: Tokens) -> dict[str, Array]:
        span = spans(tokens)
        block = (tokens.index - span.start) // self.size
        count = -(-(span.stop - span.start) // self.size)
        drawn = drawn_blocks(block, count, num=self.num_random, seed=self.seed, layer=self.layer)
        return {"start": span.start, "block": block, "count": count, "drawn": drawn}

    def visible(self, queries: Tokens, keys: Tokens) -> Bool[Array, "#b t s"]:
        own, other = queries.features["block"][:, :, None], keys.features["block"][:, None, :]
        seen = (jnp.abs(own - other) <= 1) | _is_end(queries)[:, :, None]
        seen = seen | _is_end(keys)[:, None, :]
        for number in range(self.num_random):
            seen = seen | (queries.features["drawn"][:, :, number, None] == other)
        return seen & same_span(queries, keys)

    def groups(self, tokens: Tokens) -> tuple[Blocks, ...]:
        """One group; in a segment of up to 3 + r blocks, its ends read all there is."""
        self._check_starts(tokens)
        first = {name: leaf[:, :: self.size] for name, leaf in tokens.features.items()}
        block, last = first["block"], first["count"] - 1
        near = [jnp.where((j >= 0) & (j <= last), j, -1) for j in (block - 1, block, block + 1)]
        wanted = jnp.stack([*near, jnp.zeros_like(block), last], axis=2)
        wanted = jnp.concatenate([wanted, first["drawn"]], axis=2)
        before = jnp.arange(wanted.shape[2])[:, None] > jnp.arange(wanted.shape[2])[None, :]
        twice = jnp.any((wanted[..., :, None] == wanted[..., None, :]) & before[None, None], axis=3)
        reads = wanted + (first["start"] // self.size)[:, :, None]
        return (Blocks(self, self.size, jnp.where((wanted < 0) | twice, -1, reads)),)

    def full_rows(self, tokens: Tokens) -> Rows | None:
        length, covered = tokens.index.shape[1], 3 + self.num_random
        marked = _is_end(tokens) & (tokens.features["count"] > covered)
        if tokens.segment is None:
            room = min(length, 2 * self.size)
            return Rows(places(marked, room)) if length > covered * self.size else None
        marked = marked & (tokens.segment != 0)
        # No more segments than this have more blocks than their ends read.
        most = 2 * self.size * (length // (covered * self.size + 1))
        room = min(most, room_for(length, self.max_global_tokens))
        astray = (tokens.features["start"] % self.size != 0) & (tokens.segment != 0)
        return Rows(places(marked, room), past_room(marked, room) | astray)

    def _check_starts(self, tokens: Tokens) -> None:
        """Raises UserError where a segment does not start at a block, unless that is not known."""
        if tokens.segment is None or isinstance(tokens.segment, Tracer):
            return
        ids = np.asarray(tokens.segment)
        begins = np.diff(ids, axis=1, prepend=0) != 0
        row, start = np.nonzero(begins & (ids != 0))
        wrong = start % self.size != 0
        if wrong.any():
            raise UserError(
                f"segment_ids: a segment starts at place {start[wrong][0]} of row {row[wrong][0]}, "
                f"and must start at a multiple of pattern_block={self.size}: pack it so, or "
                "change model.attention.pattern_block"
            )


def drawn_blocks(
    block: Int[Array, "#b t"], count: Int[Array, "#b t"], *, num: int, seed: int, layer: int
) -> Int[Array, "#b t num"]:
    """Returns the blocks that a block draws of its segment, no one twice; −1 for none.

    It draws from those blocks, in order, that are neither an end of the segment nor within 1 of
    itself, as many as there are, by Floyd's algorithm: of m candidates 0 … m − 1, draw number k of
    r takes u mod (m − r + k + 1), or m − r + k if that was taken already; u is a hash of (seed,
    layer, block, k). So it depends on nothing outside the segment, nor on where that lies.

    Args:
        block, count: which block of its segment a token is in, and how many that has.
        num: r.
        seed, layer: the same draw for the same numbers.
    """
    below = jnp.maximum(block - 2, 0)  # candidates before the block
    candidates = below + jnp.maximum(count - block - 3, 0)
    taken: list[Array] = []
    for k in range(num):
        last = candidates - num + k
        bits = _hash(seed, layer, block, k)
        pick = (bits % jnp.maximum(last + 1, 1).astype(jnp.uint32)).astype(jnp.int32)
        for other in taken:
            # Only one can be equal: those before are smaller than `last`.
            pick = jnp.where(pick == other, last, pick)
        taken.append(jnp.where(last < 0, -1, pick))
    if not taken:
        return jnp.zeros((*block.shape, 0), jnp.int32)
    drawn = jnp.stack(taken, axis=2)
    below, block = below[:, :, None], block[:, :, None]
    place = jnp.where(drawn < below, drawn + 1, drawn - below + block + 2)
    return jnp.where(drawn < 0, -1, place)


def _is_end(tokens: Tokens) -> Bool[Array, "#b t"]:
    block, count = tokens.features["block"], tokens.features["count"]
    return (block == 0) | (block == count - 1)


def _hash(*numbers: int | Int[Array, "#b t"]) -> UInt32[Array, "#b t"]:
    """Returns 32 bits for numbers in order. They are part of the pattern: others, other results."""
    bits = jnp.uint32(0)
    for number in numbers:
        word = jnp.uint32(number % (1 << 32)) if isinstance(number, int) else number
        bits = _mixed(bits ^ word.astype(jnp.uint32))
    return bits


def _mixed(x: UInt32[Array, ...]) -> UInt32[Array, ...]:
    """lowbias32 of Wellons's "Prospecting for Hash Functions" (2018)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
