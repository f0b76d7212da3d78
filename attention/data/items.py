"""Pieces of long examples, as `[m 3]` of example, start, stop; and warnings of long examples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

Lengths = Sequence[int] | Int[np.ndarray, " n"]

MAX_WARNINGS = 5

logger = logging.getLogger(__name__)


def piece_items(lengths: Lengths, max_length: int) -> Int[np.ndarray, "m 3"]:
    """Returns consecutive pieces that hold every position of every example once.

    A long example is cut into as few pieces as fit, of lengths that differ by at most one, so
    that no piece is left with almost no context. An empty example keeps one empty piece.
    """
    sizes = np.asarray(lengths, np.int64)
    num_pieces = np.maximum(1, -(-sizes // max_length))
    examples = np.repeat(np.arange(len(sizes)), num_pieces)
    first = np.cumsum(num_pieces) - num_pieces
    piece = np.arange(len(examples)) - first[examples]
    length, count = sizes[examples], num_pieces[examples]
    return np.stack([examples, piece * length // count, (piece + 1) * length // count], axis=1)


class LongWarnings:
    """Warns of examples longer than `max_length`: a line each, after five only their total.

    The five and the total are of all that is reported until `close`, however many pieces a stream
    is read in.

    Args:
      max_length: the limit, data.max_length.
      consequence: what is done with long examples: "runs in pieces", "is truncated".
      unit: what is counted: "words", "tokens".
    """

    def __init__(self, max_length: int, *, consequence: str, unit: str):
        self.total = 0
        self._max_length = max_length
        self._consequence = consequence
        self._unit = unit

    def report(self, lengths: Lengths, *, where: Callable[[int], tuple[str, int]]) -> int:
        """Warns of the long ones among these examples; returns how many there are.

        Args:
          lengths: of the next examples.
          where: from an example's index in `lengths` to its file (or "stdin") and line.
        """
        long = np.flatnonzero(np.asarray(lengths, np.int64) > self._max_length)
        for index in long[: max(0, MAX_WARNINGS - self.total)]:
            file, line = where(int(index))
            logger.warning(
                "%s:%d: %d %s, over data.max_length=%d: %s",
                file, line, lengths[index], self._unit, self._max_length, self._consequence,
            )  # fmt: skip
        self.total += len(long)
        return len(long)

    def close(self) -> None:
        """Says how many there were, if not each had a line of its own."""
        if self.total > MAX_WARNINGS:
            logger.warning(
                "%d examples in all are over data.max_length=%d: each %s",
                self.total, self._max_length, self._consequence,
            )  # fmt: skip


def warn_long(
    lengths: Lengths,
    max_length: int,
    *,
    where: Callable[[int], tuple[str, int]],
    consequence: str,
    unit: str,
) -> int:
    """Warns of long examples where all are known at once, as `LongWarnings` does.

    Returns:
      How many there are.
    """
    warnings = LongWarnings(max_length, consequence=consequence, unit=unit)
    warnings.report(lengths, where=where)
    warnings.close()
    return warnings.total
