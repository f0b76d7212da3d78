"""Which keys a pattern needs for which queries: what it says of itself so that the rest is skipped.

A selection may hold more pairs than are seen, never less.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Int

from attention.ops.masks import Pattern, Tokens


class Blocks(NamedTuple):
    """Queries in blocks, each of which reads some of the blocks of keys.

    Attributes:
        pattern: the pairs of this group; those of the groups of a pattern do not overlap.
        order: the tokens in the order in which they are cut into blocks; a number past the last
            token stands for none.
        size: tokens a block.
        reads: for each block of queries the blocks of keys, no one twice; negative for none.
    """

    pattern: Pattern
    order: Int[np.ndarray, " o"]
    size: int
    reads: Int[Array, "#b c r"] | Int[np.ndarray, "1 c r"]


class Chosen(NamedTuple):
    """All queries read the same keys of their row.

    Attributes:
        pattern: as in `Blocks`.
        keys: the places of the keys, none twice; negative for none.
    """

    pattern: Pattern
    keys: Int[Array, "#b m"]


@runtime_checkable
class Selective(Protocol):
    """A pattern that knows which keys its queries need."""

    def groups(self, tokens: Tokens) -> tuple[Blocks | Chosen, ...]:
        """Returns what covers all visible pairs, but for those of `full_rows`."""
        ...

    def full_rows(self, tokens: Tokens) -> Int[Array, "b g"] | None:
        """Returns the queries that read the whole row, none twice; negative for none."""
        ...
