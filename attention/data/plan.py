"""Plans: which items stand in which row of which batch, for a whole run.

A plan is a pure function of the items' lengths, the seed and the step, and knows nothing of
processes: each takes its rows of the same global batch. So a run repeats bit for bit, resumes at
any step, and does not change with the number of processes.

Lengths are `[n s]`, a column for each stream of tokens (`[n]` where there is one). Packed, the
items of a row fit in each stream.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from attention.data.ends import Ends
from attention.data.epochs import EpochStream, permutation
from attention.data.packing import (
    bucket_lengths,
    check_batch,
    pack_rows,
    round_up,
    rows_per_batch,
)

Row = tuple[int, ...]
Lengths = Int[np.ndarray, "n s"] | Int[np.ndarray, " n"] | Sequence[int]

ITEM_ORDER, ROW_ORDER = 0, 1  # what a permutation is for, so that no two are alike


class PlannedBatch(NamedTuple):
    """Rows of item ids; an empty row is padding.

    All rows are `length` positions long in each stream of tokens, where each item starts at a
    multiple of `start_multiple`, and have `slots` entries in a stream with one an example.
    """

    length: int
    rows: tuple[Row, ...]
    start_multiple: int = 1
    slots: int = 1


class _Capacity(NamedTuple):
    """What a packed row has room for."""

    max_length: int  # positions of each stream of tokens
    slots: int | None  # examples; None: as many as there are positions for
    start_multiple: int

    def batch(self, rows: Sequence[Row], size: int) -> PlannedBatch:
        """Returns a batch of `size` rows, of which the last may be empty."""
        filled = _filled(rows, size)
        return PlannedBatch(self.max_length, filled, self.start_multiple, self.slots or 1)

    def pack(self, order: np.ndarray, lengths: np.ndarray) -> list[Row]:
        """Packs the items in this order; rows hold their numbers."""
        sizes = -(-lengths[order] // self.start_multiple) * self.start_multiple
        capacities = [self.max_length] * sizes.shape[1]
        if self.slots is not None:
            sizes = np.concatenate([sizes, np.ones_like(sizes[:, :1])], axis=1)
            capacities.append(self.slots)
        ids = order.tolist()
        return [tuple(ids[i] for i in row) for row in pack_rows(sizes, capacities)]


class TrainPlan:
    """The batches of a training run: every item once an epoch, reshuffled from (seed, epoch).

    Packed, a row of `max_length` positions holds several items, and rows follow each other over
    the ends of epochs, so that all batches are full and of one shape. Unpacked, a row holds one
    item, a batch holds items of one length bucket, and each bucket's last batch of an epoch is
    filled with empty rows.
    """

    def __init__(
        self,
        item_lengths: Lengths | Callable[[int], Lengths],
        *,
        seed: int,
        max_length: int,
        rows: int | None = None,
        tokens: int | None = None,
        pack: bool,
        slots: int | None = None,
        multiple_of: int = 1,
        start_multiple: int = 1,
        epochs: float | None = None,
        past_ends: Sequence[int] = (),
    ):
        """Makes the plan.

        Args:
          item_lengths: positions of each item in each stream, none over `max_length`. A function
            of the epoch where items differ by epoch: item i of n is then number epoch · n + i.
          seed: of the order.
          max_length: positions of a packed row, and of the longest bucket, in each stream.
          rows: rows of a batch.
          tokens: instead of `rows`: positions of a batch in each stream, rows × length.
          pack: several items a row, or one.
          slots: how many items a packed row may hold; None: as many as there is room for.
          multiple_of: what the rows of a batch must be divisible by: the devices.
          start_multiple: each packed item starts at a multiple of this.
          epochs: where the run ends, if its length is given in epochs: no row of the packed
            stream beyond is used, and the last batch is filled with empty rows instead.
          past_ends: where this run ended before its `epochs` were raised, as `ends_before` said
            then: the next batch begins with the very row before which the last one stopped.
            Unpacked, no batch reaches over the end of an epoch, and they do not matter.

        Raises:
          UserError: for sizes that cannot be.
          ValueError: if there is no item, or one is too long.
        """
        self._item_lengths = item_lengths
        self._capacity = _Capacity(max_length, slots, start_multiple if pack else 1)
        self._number = len(self._lengths_of(0))
        size = {"rows": rows, "tokens": tokens, "multiple_of": multiple_of}
        check_batch(**size, max_length=max_length, pack=pack, what=f"{multiple_of} (the devices)")
        self._seed = seed
        self._pack = pack
        self._epochs = epochs
        self._past_ends = tuple(past_ends)
        buckets = (max_length,) if pack else bucket_lengths(max_length)
        self._rows = {length: rows_per_batch(length, **size) for length in buckets}
        self._stream: EpochStream[Any] = (
            EpochStream(self._packed_rows) if pack else EpochStream(self._bucket_batches)
        )

    def batch(self, step: int) -> PlannedBatch:
        """Returns the batch of a step, from 0; there is no last one, epochs go on."""
        if not self._pack:
            return self._stream.take(step, step + 1)[0]
        rows = self._stream.take(*self._ends.rows_of(step))
        return self._capacity.batch(rows, self._stream_units_per_step)

    def steps_in_epochs(self, epochs: float) -> int:
        """Returns the steps that a number of epochs takes; a part of a step counts as one."""
        size = self._stream.size(epochs)
        return self._ends_until(size).steps[-1] if self._pack else size

    def ends_before(self, step: int) -> tuple[int, ...]:
        """Returns the ends of the run that lie before a step, as `past_ends` takes them later.

        Save it with each checkpoint. Of a run that stopped before its end, that is none.
        """
        return self._ends.reached_by(step) if self._pack else ()

    @property
    def steps_per_epoch(self) -> float:
        """Steps of the first epoch; those of later ones differ by a row or two when packed."""
        return self._stream.size(1) / self._stream_units_per_step

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The (rows, length) that batches can have: each is compiled once."""
        if self._pack:
            return [(self._stream_units_per_step, self._capacity.max_length)]
        return sorted({(len(b.rows), b.length) for b in self._stream.epoch(0)})

    def padding_fraction(self) -> float:
        """Returns the share of positions that hold no item, in the first epoch."""
        lengths = self._lengths_of(0)
        if self._pack:
            positions = self._stream.size(1) * self._capacity.max_length
        else:
            positions = sum(len(b.rows) * b.length for b in self._stream.epoch(0))
        return 1 - int(lengths.sum()) / (positions * lengths.shape[1])

    @functools.cached_property
    def _ends(self) -> Ends:
        if self._epochs is not None:
            return self._ends_until(self._stream.size(self._epochs))
        return Ends(self._past_ends, rows_per_step=self._stream_units_per_step)

    def _ends_until(self, row: int) -> Ends:
        earlier = [end for end in self._past_ends if end < row]
        return Ends([*earlier, row], rows_per_step=self._stream_units_per_step)

    @property
    def _stream_units_per_step(self) -> int:
        return self._rows[self._capacity.max_length] if self._pack else 1

    def _lengths_of(self, epoch: int) -> Int[np.ndarray, "n s"]:
        given = self._item_lengths
        lengths = _by_stream(given(epoch) if callable(given) else given)
        _check_lengths(lengths, self._capacity)
        return lengths

    def _order(self, number: int, epoch: int, purpose: int) -> Int[np.ndarray, " n"]:
        return permutation(number, self._seed, epoch, purpose)

    def _packed_rows(self, epoch: int) -> list[Row]:
        lengths = self._lengths_of(epoch)
        rows = self._capacity.pack(self._order(self._number, epoch, ITEM_ORDER), lengths)
        # First rows are fuller and hold the long items: shuffled, every batch is alike.
        return [self._numbered(rows[i], epoch) for i in self._order(len(rows), epoch, ROW_ORDER)]

    def _bucket_batches(self, epoch: int) -> list[PlannedBatch]:
        order = self._order(self._number, epoch, ITEM_ORDER)
        batches = _bucketed(order, self._lengths_of(epoch), self._rows)
        shuffled = [batches[i] for i in self._order(len(batches), epoch, ROW_ORDER)]
        return [
            batch._replace(rows=tuple(self._numbered(row, epoch) for row in batch.rows))
            for batch in shuffled
        ]

    def _numbered(self, row: Row, epoch: int) -> Row:
        """The items of a row as they are counted through the epochs, where epochs differ."""
        first = epoch * self._number if callable(self._item_lengths) else 0
        return tuple(first + item for item in row)


def eval_plan(
    item_lengths: Lengths,
    *,
    rows: int,
    max_length: int,
    pack: bool,
    slots: int | None = None,
    multiple_of: int = 1,
    start_multiple: int = 1,
) -> list[PlannedBatch]:
    """Returns batches that hold every item once, in few shapes; empty rows fill the last ones.

    `rows` is rounded up to a multiple of `multiple_of`; where the items need fewer, it is the next
    power of two, so that splits of similar size share a compiled program. What shares a row with
    what depends on the lengths alone and not on `rows`.

    Raises:
      ValueError: if `rows` is below 1 or an item is too long.
    """
    lengths = _by_stream(item_lengths)
    if rows < 1:
        raise ValueError(f"{rows=} must be at least 1")
    if not len(lengths):
        return []
    capacity = _Capacity(max_length, slots, start_multiple if pack else 1)
    _check_lengths(lengths, capacity)
    longest_first = np.argsort(-lengths.max(axis=1), kind="stable")
    if not pack:
        buckets = _bucket_of(lengths.max(axis=1), bucket_lengths(max_length))
        needed = Counter(buckets.tolist())
        sizes = {
            length: round_up(min(rows, _power_of_two(number)), multiple_of)
            for length, number in needed.items()
        }
        return _bucketed(longest_first, lengths, sizes)
    packed = capacity.pack(longest_first, lengths)
    size = round_up(min(rows, _power_of_two(len(packed))), multiple_of)
    return [capacity.batch(packed[i : i + size], size) for i in range(0, len(packed), size)]


def _by_stream(lengths: Lengths) -> Int[np.ndarray, "n s"]:
    array = np.asarray(lengths, np.int64)
    return array[:, None] if array.ndim == 1 else array


def _check_lengths(lengths: np.ndarray, capacity: _Capacity) -> None:
    max_length, start_multiple = capacity.max_length, capacity.start_multiple
    if not len(lengths):
        raise ValueError("there is no item to plan for")
    if lengths.min() < 0 or lengths.max() > max_length:
        raise ValueError(
            f"items of {lengths.min()} to {lengths.max()} positions must be within 0 and "
            f"{max_length=}"
        )
    if max_length % start_multiple:
        raise ValueError(f"{start_multiple=} must divide {max_length=}")


def _bucket_of(lengths: np.ndarray, buckets: Sequence[int]) -> np.ndarray:
    return np.asarray(buckets)[np.searchsorted(buckets, lengths)]


def _bucketed(order: np.ndarray, lengths: np.ndarray, sizes: dict[int, int]) -> list[PlannedBatch]:
    """Cuts each bucket's items, in their order, into batches of one item a row.

    A bucket is of the longest stream of an item.
    """
    buckets = _bucket_of(lengths[order].max(axis=1), sorted(sizes))
    batches = []
    for length in sorted(sizes):
        rows = [(item,) for item in order[buckets == length].tolist()]
        size = sizes[length]
        for start in range(0, len(rows), size):
            batches.append(PlannedBatch(length, _filled(rows[start : start + size], size)))
    return batches


def _power_of_two(number: int) -> int:
    """Returns the smallest power of two that is not below the number."""
    return 1 << max(0, number - 1).bit_length()


def _filled(rows: Sequence[Row], size: int) -> tuple[Row, ...]:
    return (*rows, *((),) * (size - len(rows)))
