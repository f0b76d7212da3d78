"""Evaluation: every token of every example exactly once, back in file order.

The numbers are formed on the host from per-token outputs in file order, so they do not depend on
the batch size, the packing or the number of devices beyond float rounding of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx

from attention import variants
from attention.data.encoded import EncodedSplit
from attention.data.pipeline import eval_batches
from attention.data.plan import PlannedBatch, eval_plan
from attention.training.parallel import Parallel
from attention.training.state import ModelParts
from attention.training.step import make_predict_step


class Evaluation(NamedTuple):
    """What one pass over a split gives."""

    metrics: dict[str, float]  # empty where nothing is labelled
    counts: dict[str, int]
    outputs: dict[str, np.ndarray]  # per token, all examples end to end


class Predictor:
    """A model's compiled prediction step, for any split."""

    def __init__(self, task: Any, parts: ModelParts, parallel: Parallel) -> None:
        self._task = task
        self._parallel = parallel
        self._rates = parallel.place(parts.rates)
        self._step = parallel.predict_step(make_predict_step(parts.structure, task.predict))

    @property
    def compile_seconds(self) -> float:
        return self._step.compile_seconds

    @property
    def num_programs(self) -> int:
        return self._step.num_programs

    def outputs(
        self,
        params: nnx.State,
        encoded: EncodedSplit,
        plan: Sequence[PlannedBatch],
        *,
        names: Sequence[str],
        poll: Callable[[], None] = lambda: None,
    ) -> dict[str, np.ndarray]:
        """The named outputs for every token of a split.

        Args:
          params: placed by `parallel`.
          names: which of the task's outputs to bring to the host.
          poll: called between batches; may raise to stop.
        """
        collected: dict[str, np.ndarray] = {}
        for planned, batch, outputs in self._steps(params, encoded, plan):
            poll()
            host = self._parallel.to_host({name: outputs[name] for name in names})
            _scatter(collected, host, planned, batch["segment_ids"], encoded)
        return collected

    def _steps(
        self, params: nnx.State, encoded: EncodedSplit, plan: Sequence[PlannedBatch]
    ) -> Iterator[tuple[PlannedBatch, Mapping[str, np.ndarray], Mapping[str, jax.Array]]]:
        """Runs the batches; the next is dispatched before the last is fetched."""
        waiting = None
        for planned, batch in eval_batches(encoded.item, plan, fill=self._task.FILL):
            outputs = self._step(params, self._parallel.place_batch(batch), self._rates)
            if waiting is not None:
                yield waiting
            waiting = (planned, batch, outputs)
        if waiting is not None:
            yield waiting


def _scatter(
    collected: dict[str, np.ndarray],
    host: Mapping[str, np.ndarray],
    planned: PlannedBatch,
    segment_ids: np.ndarray,
    encoded: EncodedSplit,
) -> None:
    """Copies a batch's outputs to the places of their tokens."""
    for name, values in host.items():
        if name not in collected:
            shape = (encoded.num_tokens, *values.shape[2:])
            collected[name] = np.zeros(shape, values.dtype)
        for row, items in enumerate(planned.rows):
            for segment, item in enumerate(items, start=1):
                collected[name][encoded.where(item)] = values[row][segment_ids[row] == segment]


class Evaluator:
    """Scores one split, again and again, with fixed batches."""

    def __init__(self, task: Any, encoded: EncodedSplit, config: Any, parallel: Parallel) -> None:
        self._task = task
        self.encoded = encoded
        self._plan = plan_split(encoded, config, parallel)

    def __call__(
        self, predictor: Predictor, params: nnx.State, *, poll: Callable[[], None] = lambda: None
    ) -> Evaluation:
        """One pass; `params` are placed."""
        outputs = predictor.outputs(
            params, self.encoded, self._plan, names=self._task.SCORED, poll=poll
        )
        metrics, counts = self._task.score(self.encoded, outputs)
        counts = {"num_eval_examples": len(self.encoded.lengths), **counts}
        return Evaluation(metrics, counts, outputs)

    def lines(self, examples: Sequence[Any], evaluation: Evaluation, limit: int) -> Iterator[str]:
        """One line an example, in file order, with what the model makes of it."""
        for index in range(min(limit, len(examples))):
            where = self.encoded.tokens_of(index)
            outputs = {name: values[where] for name, values in evaluation.outputs.items()}
            yield self._task.prediction_line(examples[index], outputs)


def start_multiple(config: Any) -> int:
    """Block variants count blocks from the start of a segment, so segments start at blocks."""
    own = config.model.attention.to_dict()
    return variants.pack_multiple(own.pop("variant"), own)


def plan_split(encoded: EncodedSplit, config: Any, parallel: Parallel) -> list[PlannedBatch]:
    """Batches for evaluation: packed as in training, rows rounded up to the devices."""
    return eval_plan(
        encoded.item_lengths,
        rows=config.eval_batch_size,
        max_length=config.data.max_length,
        pack=config.data.pack == "always",
        start_multiple=start_multiple(config),
        multiple_of=parallel.num_devices,
    )
