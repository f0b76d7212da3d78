"""Putting items of many lengths into rows of one length, or rows of few lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from attention.errors import UserError

# Most sentences are short: on English and Turkish treebanks 70 % of the positions of these buckets
# hold a word, 60 % where lengths double from 16, and 74 % where they go up by half, in more shapes.
FIRST_BUCKETS = (8, 16, 24, 32, 48, 64)


# Enough that rows of pairs are as full as with all rows open, few enough to look at one by one.
OPEN_ROWS = 128


def pack_rows(sizes: Int[np.ndarray, "n d"], capacities: Sequence[int]) -> list[tuple[int, ...]]:
    """Packs items, in their order, into rows with room in each of d dimensions.

    Args:
      sizes: of the items, each at most `capacities`.
      capacities: of a row: positions of each stream, or examples.

    Returns:
      The rows, as positions in `sizes`.
    """
    for dimension, capacity in enumerate(capacities):
        largest = int(sizes[:, dimension].max(initial=0))
        if largest > capacity:
            raise ValueError(f"an item of {largest} positions does not fit rows of {capacity}")
    if len(capacities) == 1:
        return best_fit(sizes[:, 0].tolist(), capacities[0])
    return fullest_fit(sizes, capacities)


def fullest_fit(sizes: Int[np.ndarray, "n d"], capacities: Sequence[int]) -> list[tuple[int, ...]]:
    """Packs items, in their order, each into the fullest of the open rows that has room for it.

    The fullest has the fewest free places, added over all dimensions. At most `OPEN_ROWS` are
    open: to open one more, the fullest is closed.
    """
    rows: list[list[int]] = []
    opened = [0] * OPEN_ROWS  # the row at each place
    free = np.full((OPEN_ROWS, len(capacities)), -1, np.int64)  # -1: no row there, nothing fits
    total = np.zeros(OPEN_ROWS, np.int64)
    no_room = sum(capacities) + 1
    for item, size in enumerate(sizes):
        places = np.where((free < size).any(axis=1), no_room, total)
        place = int(places.argmin())
        if places[place] == no_room:
            place = len(rows) if len(rows) < OPEN_ROWS else int(total.argmin())
            opened[place] = len(rows)
            free[place], total[place] = capacities, sum(capacities)
            rows.append([])
        rows[opened[place]].append(item)
        free[place] -= size
        total[place] -= size.sum()
    return [tuple(row) for row in rows]


def best_fit(lengths: Sequence[int], capacity: int) -> list[tuple[int, ...]]:
    """Packs items, in their order, each into the fullest row that still has room for it.

    Args:
      lengths: of the items, each at most `capacity`.
      capacity: positions a row.

    Returns:
      The rows, as positions in `lengths`.
    """
    rows: list[list[int]] = []
    # open_rows[space] are rows with that many free positions; bit `space` of `spaces` is set where
    # there is one, so that the tightest fit is the lowest bit at or above the item's length.
    open_rows: list[list[int]] = [[] for _ in range(capacity + 1)]
    spaces = 0
    for item, length in enumerate(lengths):
        if fitting := spaces >> length:
            space = length + (fitting & -fitting).bit_length() - 1
            row = open_rows[space].pop()
            if not open_rows[space]:
                spaces ^= 1 << space
        else:
            if length > capacity:
                raise ValueError(f"an item of {length} positions does not fit rows of {capacity}")
            space, row = capacity, len(rows)
            rows.append([])
        rows[row].append(item)
        open_rows[space - length].append(row)
        spaces |= 1 << (space - length)
    return [tuple(row) for row in rows]


def bucket_lengths(max_length: int) -> tuple[int, ...]:
    """Returns the row lengths of unpacked batches, up to `max_length` itself.

    They are multiples of 8 up to 64, in eight steps for 256, and double from there on.
    """
    lengths = [length for length in FIRST_BUCKETS if length < max_length]
    while lengths and lengths[-1] >= FIRST_BUCKETS[-1] and 2 * lengths[-1] < max_length:
        lengths.append(2 * lengths[-1])
    return (*lengths, max_length)


def round_up(number: int, multiple: int) -> int:
    """Returns the smallest multiple that is not below the number."""
    return -(-number // multiple) * multiple


def check_batch(
    *,
    rows: int | None,
    tokens: int | None,
    max_length: int,
    pack: bool,
    multiple_of: int,
    what: str,
) -> None:
    """Refuses a training batch that does not share out evenly; needs no data, so call it first.

    Unpacked, `tokens` are only a guide to the rows of each bucket, which are rounded; everything
    else is taken at its word.

    Args:
      rows: batch_size, rows of a batch; None where `tokens` are given.
      tokens: batch_tokens, positions of a batch; None where `rows` are given.
      max_length: data.max_length, positions of a packed row.
      pack: several examples a row, or one.
      multiple_of: what the rows must be divisible by.
      what: that number in words: "4 devices × 2 accumulation steps".

    Raises:
      UserError: names the key, its value, the rows and what they cannot be divided among.
    """
    if (rows is None) == (tokens is None):
        raise UserError(f"set one of batch_size={rows} and batch_tokens={tokens}, not both")
    key, value, meaning = "batch_size", rows, "rows"
    if tokens is not None:
        key, value, meaning = "batch_tokens", tokens, f"rows of data.max_length={max_length}"
        rows = tokens // max_length
        if not pack:
            rows = multiple_of if tokens > 0 else 0
    assert rows is not None
    if rows < 1:
        raise UserError(f"{key}={value} is less than one of the {meaning}: raise {key}")
    if rows % multiple_of:
        unit = max_length if tokens is not None else 1
        near = sorted({max(1, rows // multiple_of) * multiple_of, round_up(rows, multiple_of)})
        raise UserError(
            f"{key}={value} makes {rows} {meaning}, which do not divide over {what}: set {key} to "
            f"{' or '.join(str(number * unit) for number in near)}"
        )


def rows_per_batch(length: int, *, rows: int | None, tokens: int | None, multiple_of: int) -> int:
    """Returns how many rows of `length` a training batch has, of a size that `check_batch` let by.

    Positions are rounded down to rows that can be divided, of which there is at least one for each
    device, also where one row is longer than the tokens asked for.
    """
    if tokens is not None:
        return max(1, tokens // length // multiple_of) * multiple_of
    assert rows is not None
    return rows
