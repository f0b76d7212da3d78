"""Putting items of many lengths into rows of one length, or rows of few lengths."""

from __future__ import annotations

from collections.abc import Sequence

from attention.errors import UserError

# Most sentences are short: on English and Turkish treebanks 70 % of the positions of these buckets
# hold a word, 60 % where lengths double from 16, and 74 % where they go up by half, in more shapes.
FIRST_BUCKETS = (8, 16, 24, 32, 48, 64)


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


def rows_per_batch(length: int, *, rows: int | None, tokens: int | None, multiple_of: int) -> int:
    """Returns how many rows of `length` a training batch has; exactly one size is given.

    Raises:
      UserError: if the rows asked for cannot be divided among the devices, or are below 1.
    """
    if (rows is None) == (tokens is None):
        raise UserError(f"set one of batch_size={rows} and batch_tokens={tokens}, not both")
    if tokens is not None:
        if tokens < 1:
            raise UserError(f"batch_tokens={tokens} must be at least 1")
        # At least one row a device, also where one is longer than the tokens asked for.
        return max(1, tokens // length // multiple_of) * multiple_of
    assert rows is not None
    if rows < 1 or rows % multiple_of:
        raise UserError(f"batch_size={rows} must be a positive multiple of {multiple_of} (devices)")
    return rows
