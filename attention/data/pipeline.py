"""From a plan to arrays: Grain assembles batches ahead of the training loop, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention.data.plan import PlannedBatch, TrainPlan

Item = dict[str, Shaped[np.ndarray, "t ..."]]
Batch = dict[str, Shaped[np.ndarray, "b t ..."]]
EncodeItem = Callable[[int], Item]

DEFAULT_THREADS = 2
BATCHES_AHEAD = 4


def assemble(
    encoded: Sequence[Sequence[Item]],
    batch: PlannedBatch,
    fill: Mapping[str, int],
    *,
    template: Item | None = None,
) -> Batch:
    """Lays items into rows of `batch.length` positions.

    Args:
      encoded: the items of each row; every item has the same keys, its arrays one length.
      batch: gives the length, and the multiple at which items start; its rows are not read.
      fill: what stands where there is no item, by key; 0 for keys it does not name.
      template: any item: tells keys and types where no row has one.

    Returns:
      The items' keys as `[b t ...]`, with int32 `segment_ids` (1, 2, ... in each row, 0 where
      there is no item) and int32 `positions` (0, 1, ... in each item, 0 where there is none).
    """
    items = [item for row in encoded for item in row]
    if template is None:
        if not items:
            raise ValueError("a batch without items needs a template")
        template = items[0]
    lengths = np.array([_length(item) for item in items], np.int64)
    starts, segments = _layout(encoded, lengths, batch)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(starts, lengths) + within

    def lay(values: np.ndarray, value: int) -> np.ndarray:
        laid = np.full((len(encoded) * batch.length, *values.shape[1:]), value, values.dtype)
        laid[places] = values
        return laid.reshape(len(encoded), batch.length, *values.shape[1:])

    laid = {
        key: lay(np.concatenate([array[:0], *(item[key] for item in items)]), fill.get(key, 0))
        for key, array in template.items()
    }
    laid["segment_ids"] = lay(np.repeat(segments, lengths).astype(np.int32), 0)
    laid["positions"] = lay(within.astype(np.int32), 0)
    return laid


def train_iterator(
    encode_item: EncodeItem,
    plan: TrainPlan,
    *,
    fill: Mapping[str, int],
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

    template = encode_item(0)

    def make(step: int) -> Batch:
        return _local_batch(
            plan.batch(int(step)), encode_item, fill, template, process_index, process_count
        )

    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=BATCHES_AHEAD)
    steps = grain.MapDataset.range(num_steps).map(make)
    return iter(steps.to_iter_dataset(read_options=options))


def eval_batches(
    encode_item: EncodeItem,
    plan: Sequence[PlannedBatch],
    *,
    fill: Mapping[str, int],
    process_index: int = 0,
    process_count: int = 1,
) -> Iterator[tuple[PlannedBatch, Batch]]:
    """Yields each planned batch, its global rows, with this process's block of its arrays."""
    template = encode_item(0) if plan else {}
    for batch in plan:
        yield batch, _local_batch(batch, encode_item, fill, template, process_index, process_count)


def _local_batch(
    batch: PlannedBatch,
    encode_item: EncodeItem,
    fill: Mapping[str, int],
    template: Item,
    process_index: int,
    process_count: int,
) -> Batch:
    if len(batch.rows) % process_count:
        raise ValueError(f"{process_count=} must divide the {len(batch.rows)} rows of a batch")
    block = len(batch.rows) // process_count
    rows = batch.rows[process_index * block : (process_index + 1) * block]
    encoded = [[encode_item(item) for item in row] for row in rows]
    return assemble(encoded, batch, fill, template=template)


def _layout(
    encoded: Sequence[Sequence[Item]], lengths: np.ndarray, batch: PlannedBatch
) -> tuple[np.ndarray, np.ndarray]:
    """Returns where each item starts, in a row-major count of positions, and its segment id."""
    starts, segments = [], []
    all_lengths = iter(lengths.tolist())
    for row, items in enumerate(encoded):
        end = 0
        for segment, _ in enumerate(items, start=1):
            start = -(-end // batch.start_multiple) * batch.start_multiple
            end = start + next(all_lengths)
            starts.append(row * batch.length + start)
            segments.append(segment)
        if end > batch.length:
            raise ValueError(f"row {row} holds {end} positions, its length is {batch.length}")
    return np.array(starts, np.int64), np.array(segments, np.int64)


def _length(item: Item) -> int:
    lengths = {key: len(array) for key, array in item.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"the arrays of an item must have one length, got {lengths}")
    return next(iter(lengths.values()))
