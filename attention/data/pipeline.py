"""From a plan to arrays: Grain assembles batches ahead of the training loop, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention.data.packing import round_up
from attention.data.plan import PlannedBatch, TrainPlan
from attention.data.streams import Arrays, Encoded, Stream, lengths_of

Batch = dict[str, dict[str, Shaped[np.ndarray, "b t ..."]]]
EncodeItem = Callable[[int], Encoded]

DEFAULT_THREADS = 2
BATCHES_AHEAD = 4


def assemble(
    encoded: Sequence[Sequence[Encoded]],
    batch: PlannedBatch,
    streams: Sequence[Stream],
    *,
    template: Encoded | None = None,
) -> Batch:
    """Lays items into rows, in each stream.

    Args:
      encoded: the items of each row; every item has the same streams and arrays.
      batch: gives the lengths, and the multiple at which items start; its rows are not read.
      streams: of the task.
      template: any item: tells names and types where no row has one.

    Returns:
      By stream, the items' arrays as `[b t ...]` (t is `batch.slots` where a stream has one entry
      an example), with int32 `segment_ids` (1, 2, ... in each row, the same in all streams; 0
      where there is no item) and int32 `positions` (0, 1, ... in each item, 0 where there is
      none).
    """
    items = [item for row in encoded for item in row]
    if template is None:
        if not items:
            raise ValueError("a batch without items needs a template")
        template = items[0]
    lengths = np.array([lengths_of(item, streams) for item in items], np.int64)
    lengths = lengths.reshape(len(items), len(streams))
    items_per_row = [len(row) for row in encoded]
    return {
        stream.name: _assemble_stream(
            [item.get(stream.name, {}) for item in (template, *items)],
            lengths[:, index],
            items_per_row,
            batch,
            stream,
        )
        for index, stream in enumerate(streams)
    }


def _assemble_stream(
    arrays: Sequence[Any],
    lengths: np.ndarray,
    items_per_row: Sequence[int],
    batch: PlannedBatch,
    stream: Stream,
) -> Arrays:
    """Lays the arrays of one stream, of which the first are the template's."""
    length, multiple = batch.length, batch.start_multiple
    if stream.one_each:
        length, multiple = batch.slots, 1
    starts, segments = _layout(lengths, items_per_row, length, multiple, stream.name)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(starts, lengths) + within

    def lay(values: np.ndarray, value: int) -> np.ndarray:
        laid = np.full((len(items_per_row) * length, *values.shape[1:]), value, values.dtype)
        laid[places] = values
        return laid.reshape(len(items_per_row), length, *values.shape[1:])

    template, *items = arrays
    laid = {
        name: lay(
            np.concatenate([array[:0], *(item[name] for item in items)]), stream.fill.get(name, 0)
        )
        for name, array in template.items()
    }
    laid["segment_ids"] = lay(np.repeat(segments, lengths).astype(np.int32), 0)
    laid["positions"] = lay(within.astype(np.int32), 0)
    return laid


def train_iterator(
    encode_item: EncodeItem,
    plan: TrainPlan,
    *,
    streams: Sequence[Stream],
    num_steps: int,
    process_index: int = 0,
    process_count: int = 1,
    threads: int = DEFAULT_THREADS,
) -> Any:
    """Returns a Grain iterator over the batches of steps 0 to `num_steps` - 1.

    Each process gets its block of the rows of every global batch. `get_state()` is a small
    JSON-able dict: an iterator made with the same arguments and given to `set_state` goes on with
    the very next batch.

    Raises:
      ValueError: if the rows of a batch cannot be divided among the processes.
    """
    import grain  # here: it takes half a second, and evaluating does not need it

    # Types without entries: a view of an item would keep all of its epoch in memory.
    template = {
        stream: {name: array[:0].copy() for name, array in arrays.items()}
        for stream, arrays in encode_item(0).items()
    }

    def make(step: int) -> Batch:
        return _local_batch(
            plan.batch(int(step)), encode_item, streams, template, process_index, process_count
        )

    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=BATCHES_AHEAD)
    steps = grain.MapDataset.range(num_steps).map(make)
    return iter(steps.to_iter_dataset(read_options=options))


def eval_batches(
    encode_item: EncodeItem,
    plan: Sequence[PlannedBatch],
    *,
    streams: Sequence[Stream],
    process_index: int = 0,
    process_count: int = 1,
) -> Iterator[tuple[PlannedBatch, Batch]]:
    """Yields each planned batch, its global rows, with this process's block of its arrays."""
    template = encode_item(0) if plan else {}
    for batch in plan:
        yield (
            batch,
            _local_batch(batch, encode_item, streams, template, process_index, process_count),
        )


def _local_batch(
    batch: PlannedBatch,
    encode_item: EncodeItem,
    streams: Sequence[Stream],
    template: Encoded,
    process_index: int,
    process_count: int,
) -> Batch:
    if len(batch.rows) % process_count:
        raise ValueError(f"{process_count=} must divide the {len(batch.rows)} rows of a batch")
    block = len(batch.rows) // process_count
    rows = batch.rows[process_index * block : (process_index + 1) * block]
    encoded = [[encode_item(item) for item in row] for row in rows]
    return assemble(encoded, batch, streams, template=template)


def _layout(
    lengths: np.ndarray, items_per_row: Sequence[int], length: int, multiple: int, stream: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns where each item starts, in a row-major count of positions, and its segment id."""
    starts, segments = [], []
    all_lengths = iter(lengths.tolist())
    for row, items in enumerate(items_per_row):
        end = 0
        for segment in range(1, items + 1):
            start = round_up(end, multiple)
            end = start + next(all_lengths)
            starts.append(row * length + start)
            segments.append(segment)
        if end > length:
            raise ValueError(
                f"row {row} holds {end} positions of stream '{stream}', its length is {length}"
            )
    return np.array(starts, np.int64), np.array(segments, np.int64)
