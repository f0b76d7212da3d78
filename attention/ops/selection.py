"""Which keys a pattern needs for which queries: what it says of itself so that the rest is skipped.

A selection may hold more pairs than are seen, never less.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from attention.ops.masks import Pattern, Tokens


class Blocks(NamedTuple):
    """Queries in blocks, each of which reads some of the blocks of keys.

    Attributes:
        pattern: the pairs of this group; those of the groups of a pattern do not overlap.
        size: tokens a block.
        reads: for each block of queries the blocks of keys, no one twice; negative for none.
        step: d; first come the blocks of the tokens 0, d, 2d, …, then those of 1, 1 + d, …, and so
            on, the same number for each remainder.
    """

    pattern: Pattern
    size: int
    reads: Int[Array, "#b c r"] | Int[np.ndarray, "1 c r"]
    step: int = 1


class Chosen(NamedTuple):
    """All queries read the same keys of their row.

    Attributes:
        pattern: as in `Blocks`.
        keys: the places of the keys, none twice; negative for none.
    """

    pattern: Pattern
    keys: Int[Array, "#b m"]


class Rows(NamedTuple):
    """Queries that read the whole row.

    Attributes:
        index: their places, none twice; negative for none.
        lost: queries that there was no room for: they become NaN rather than wrong.
    """

    index: Int[Array, "#b g"]
    lost: Bool[Array, "#b t"] | None = None


@runtime_checkable
class Selective(Protocol):
    """A pattern that knows which keys its queries need."""

    def groups(self, tokens: Tokens) -> tuple[Blocks | Chosen, ...]:
        """Returns what covers all visible pairs, but for those of `full_rows`."""
        ...

    def full_rows(self, tokens: Tokens) -> Rows | None:
        """Returns the queries that read the whole row."""
        ...


def band(
    length: int, *, left: int, right: int, size: int, step: int = 1
) -> Int[np.ndarray, "1 c r"]:
    """Returns what each block reads so that a query reaches left·step back and right·step ahead."""
    each = -(-length // (step * size))  # blocks of one remainder
    before, after = min(-(-left // size), each), min(-(-right // size), each)
    block = np.arange(each)[:, None] + np.arange(-before, after + 1)[None, :]
    inside = (block >= 0) & (block < each)
    reads = block[None] + each * np.arange(step)[:, None, None]
    return np.where(inside[None], reads, -1).reshape(1, each * step, -1)


def room_for(length: int, most: int | None) -> int:
    """Returns for how many tokens that see or are seen by all there is room in a row.

    Args:
        length: of the row.
        most: what the user set; None = all up to 512 tokens, beyond that an eighth, 512 at least.
    """
    return min(length, max(512, length // 8) if most is None else most)


def places(marked: Bool[Array, "b t"], room: int) -> Int[Array, "b room"]:
    """Returns the places of the first `room` tokens that are marked, then −1."""

    if not room:
        return jnp.zeros((marked.shape[0], 0), jnp.int32)

    def of_row(row: Array) -> Array:
        return jnp.nonzero(row, size=room, fill_value=-1)[0].astype(jnp.int32)

    return jax.vmap(of_row)(marked)


def past_room(marked: Bool[Array, "b t"], room: int) -> Bool[Array, "b t"]:
    """Returns which marked tokens `places` leaves out."""
    return marked & (jnp.cumsum(marked.astype(jnp.int32), axis=1) > room)
