"""A pass over examples that keeps what each layer was given, and what is shown of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from attention.data.encoded import EncodedSplit
from attention.data.pipeline import eval_batches
from attention.data.plan import PlannedBatch
from attention.tools.saved_run import SavedRun
from attention.visualization.maps import Found, map_of
from attention.visualization.places import record

Batch = Mapping[str, Mapping[str, Array | np.ndarray]]


class Layer(NamedTuple):
    """A place, and what is shown of it in one example: all heads, padding left out."""

    found: Found
    values: Float[np.ndarray, "n t s"]


class Captured(NamedTuple):
    """One example.

    Attributes:
        logits: of the pass that was recorded: [t v], or [1 c] of a text.
        layers: in the order in which the model runs them.
    """

    logits: Float[np.ndarray, "t v"]
    layers: tuple[Layer, ...]


def capture(saved: SavedRun, encoded: EncodedSplit, plan: Sequence[PlannedBatch]) -> list[Captured]:
    """Runs the model once over each example, one a row.

    It is the pass that predicts and scores, with recorders beside the layers: what is compiled
    differs in what it gives back, so logits are the same up to float rounding.
    """
    found: list[Found] = []

    @jax.jit
    def run(params: nnx.State, batch: Batch):
        model = nnx.merge(saved.parts.structure, params, saved.parts.rates)
        calls = record(model)
        logits = logits_of(saved.task, model, batch)
        maps = [map_of(call) for call in calls]
        found[:] = [one for one, _ in maps]
        return logits, [values for _, values in maps]

    captured: dict[int, Captured] = {}
    for planned, batch in eval_batches(encoded.item, plan, streams=saved.task.STREAMS):
        logits, maps = jax.device_get(run(saved.parts.params, batch))
        for row, items in enumerate(planned.rows):
            lengths, width = _lengths(batch, row), planned.length
            for item in items:
                layers = tuple(
                    Layer(one, _cut(values[row], one, lengths, width))
                    for one, values in zip(found, maps, strict=True)
                )
                captured[item] = Captured(logits[row, : lengths[logits_stream(batch)]], layers)
    return [captured[item] for item in range(len(captured))]


def plain_logits(
    saved: SavedRun, encoded: EncodedSplit, plan: Sequence[PlannedBatch]
) -> list[Float[np.ndarray, "t v"]]:
    """Returns the logits of the same pass without recorders, to compare with."""

    @jax.jit
    def run(params: nnx.State, batch: Batch):
        model = nnx.merge(saved.parts.structure, params, saved.parts.rates)
        return logits_of(saved.task, model, batch)

    found: dict[int, np.ndarray] = {}
    for planned, batch in eval_batches(encoded.item, plan, streams=saved.task.STREAMS):
        logits = jax.device_get(run(saved.parts.params, batch))
        for row, items in enumerate(planned.rows):
            length = _lengths(batch, row)[logits_stream(batch)]
            found |= {item: logits[row, :length] for item in items}
    return [found[item] for item in range(len(found))]


def logits_of(task: Any, model: Any, batch: Batch) -> Float[Array, "b t v"]:
    """Returns what the task's predictions are made from, without dropout."""
    for stream, names in task.LOGITS.items():
        return task.predict(model, batch)[stream][names[0]]
    # A translator's answers are searched for; its logits are those of a given target.
    source, target = batch["source"], batch["target"]
    return model(
        source["ids"],
        target["inputs"],
        source_segment_ids=source["segment_ids"],
        target_segment_ids=target["segment_ids"],
        source_positions=source["positions"],
        target_positions=target["positions"],
    )


def logits_stream(batch: Batch) -> str:
    """Returns which sequence has a row of logits for each entry: "text" has one row in all."""
    if "target" in batch:
        return "read"
    return "text" if "examples" in batch else "tokens"


def _lengths(batch: Batch, row: int) -> dict[str, int]:
    """Returns the length of each sequence that `Place` names, in one row."""
    lengths = {stream: int(np.sum(arrays["segment_ids"][row])) for stream, arrays in batch.items()}
    target = lengths.get("target", 0)
    return {**lengths, "text": 1, "read": target, "written": target}


def _cut(
    values: Float[np.ndarray, "n t s"], found: Found, lengths: Mapping[str, int], width: int
) -> Float[np.ndarray, "n t s"]:
    """Returns the heads' maps without the padding up to `width`.

    A pointer alone has a key of its own behind all others, which is kept.
    """
    place = found.place
    queries, keys = lengths[place.queries], lengths[place.keys]
    shown = np.concatenate([values[:, :queries, :keys], values[:, :queries, width:]], axis=2)
    return shown[:, ::-1, ::-1] if place.turned else shown
