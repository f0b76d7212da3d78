"""Evaluation: every entry of every example exactly once, back in file order.

The numbers are formed on the host from outputs in file order, so they do not depend on the batch
size, the packing or the number of devices beyond float rounding of the model itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flax import nnx

from attention import configuration, variants
from attention.data.encoded import EncodedSplit
from attention.data.pipeline import eval_batches
from attention.data.plan import PlannedBatch, eval_plan
from attention.data.streams import slots_per_row
from attention.training.parallel import Parallel
from attention.training.state import ModelParts
from attention.training.step import make_predict_step

Names = Mapping[str, Sequence[str]]  # of outputs, by stream
Outputs = dict[str, dict[str, np.ndarray]]  # by stream and name: [entries ...]


class Evaluation(NamedTuple):
    """What one pass over a split gives."""

    metrics: dict[str, float]  # empty where nothing is labelled
    counts: dict[str, int]
    outputs: Outputs  # all examples end to end


class Predictor:
    """A model's compiled prediction steps, for any split: one for each choice of outputs."""

    def __init__(self, task: Any, parts: ModelParts, parallel: Parallel) -> None:
        self._task = task
        self._parallel = parallel
        self._structure = parts.structure
        self._rates = parallel.place(parts.rates)
        self._steps: dict[Any, Any] = {}

    @property
    def compile_seconds(self) -> float:
        return sum(step.compile_seconds for step in self._steps.values())

    @property
    def num_programs(self) -> int:
        return sum(step.num_programs for step in self._steps.values())

    def outputs(
        self,
        params: nnx.State,
        encoded: EncodedSplit,
        plan: Sequence[PlannedBatch],
        *,
        names: Names,
        poll: Callable[[], None] = lambda: None,
    ) -> Outputs:
        """The named outputs for every entry of the streams of a split.

        Args:
          params: placed by `parallel`.
          names: which of the task's outputs to compute and bring to the host.
          poll: called between batches; may raise to stop.
        """
        collected: Outputs = {stream: {} for stream in names}
        for planned, batch, outputs in self._run(params, encoded, plan, names):
            poll()
            host = self._parallel.to_host(outputs)
            for stream, values in host.items():
                segment_ids = batch[stream]["segment_ids"]
                _scatter(collected[stream], values, planned, segment_ids, encoded, stream)
        return collected

    def _run(
        self, params: nnx.State, encoded: EncodedSplit, plan: Sequence[PlannedBatch], names: Names
    ) -> Iterator[tuple[PlannedBatch, Any, Any]]:
        """Runs the batches; the next is dispatched before the last is fetched."""
        step, waiting = self._step(names), None
        for planned, batch in eval_batches(encoded.item, plan, streams=self._task.STREAMS):
            outputs = step(params, self._parallel.place_batch(batch), self._rates)
            if waiting is not None:
                yield waiting
            waiting = (planned, batch, outputs)
        if waiting is not None:
            yield waiting

    def _step(self, names: Names) -> Any:
        key = tuple((stream, tuple(wanted)) for stream, wanted in names.items())
        if key not in self._steps:
            step = make_predict_step(self._structure, self._task.predict, names)
            self._steps[key] = self._parallel.predict_step(step)
        return self._steps[key]


def _scatter(
    collected: dict[str, np.ndarray],
    host: Mapping[str, np.ndarray],
    planned: PlannedBatch,
    segment_ids: np.ndarray,
    encoded: EncodedSplit,
    stream: str,
) -> None:
    """Copies a batch's outputs of a stream to the places of its entries."""
    # Row by row the entries of items follow each other in the order of the plan.
    where = [encoded.where(stream, item) for row in planned.rows for item in row]
    places = np.concatenate([np.arange(one.start, one.stop) for one in where] or [[]])
    for name, values in host.items():
        if name not in collected:
            shape = (encoded.size(stream), *values.shape[2:])
            collected[name] = np.zeros(shape, values.dtype)
        collected[name][places.astype(np.int64)] = values[segment_ids > 0]


class Evaluator:
    """Scores one split, again and again, with fixed batches."""

    def __init__(self, task: Any, encoded: EncodedSplit, config: Any, parallel: Parallel) -> None:
        self._task = task
        self.encoded = encoded
        self._plan = plan_split(encoded, task, config, parallel)
        self._num_long = int(np.sum(encoded.longest > config.data.max_length))

    def __call__(
        self, predictor: Predictor, params: nnx.State, *, poll: Callable[[], None] = lambda: None
    ) -> Evaluation:
        """One pass; `params` are placed."""
        outputs = predictor.outputs(
            params, self.encoded, self._plan, names=self._task.SCORED, poll=poll
        )
        metrics, counts = self._task.score(self.encoded, outputs)
        counts = {"num_eval_examples": len(self.encoded.lengths), **counts}
        if not self._task.PIECES:
            counts["num_truncated_examples"] = self._num_long
        return Evaluation(metrics, counts, outputs)

    def details(self, evaluation: Evaluation) -> dict[str, Any]:
        """What a report of the split holds besides numbers; nothing where the task has no such."""
        if not hasattr(self._task, "details"):
            return {}
        return self._task.details(self.encoded, evaluation.outputs)

    def references(self) -> list[str] | None:
        """What each prediction is compared with, where that is a line of text."""
        if not hasattr(self._task, "reference_line"):
            return None
        return [self._task.reference_line(example) for example in self.encoded.examples]

    def lines(self, evaluation: Evaluation, *, limit: int | None = None) -> Iterator[str]:
        """One line an example, in file order, with what the model makes of it.

        Args:
          limit: only the first so many; None is all.
        """
        examples = self.encoded.examples
        number = len(examples) if limit is None else min(limit, len(examples))
        for index in range(number):
            outputs = outputs_of(evaluation.outputs, self.encoded, index)
            yield self._task.prediction_line(examples[index], outputs)


def outputs_of(outputs: Outputs, encoded: EncodedSplit, example: int) -> Outputs:
    """The outputs of one example, by stream and name: a row each entry."""
    found: Outputs = {}
    for stream, values in outputs.items():
        where = encoded.tokens_of(stream, example)
        found[stream] = {name: array[where] for name, array in values.items()}
    return found


def start_multiple(config: Any) -> int:
    """The multiple of positions at which an example in a packed row may begin.

    Block variants count blocks from the start of a segment, so segments start at blocks: those of
    every attention of the model.
    """
    multiples = []
    for _, section in configuration.attention_sections(config):
        own = section.to_dict()
        multiples.append(variants.pack_multiple(own.pop("variant"), own))
    return math.lcm(*multiples)


def plan_split(
    encoded: EncodedSplit, task: Any, config: Any, parallel: Parallel
) -> list[PlannedBatch]:
    """Batches for evaluation: packed where training and the task are, for whole devices."""
    max_length = config.data.max_length
    return eval_plan(
        encoded.item_lengths,
        rows=config.eval_batch_size,
        max_length=max_length,
        pack=config.data.pack == "always" and task.PACKS_EVALUATION,
        slots=slots_per_row(task.STREAMS, max_length),
        start_multiple=start_multiple(config),
        multiple_of=parallel.num_devices,
    )
