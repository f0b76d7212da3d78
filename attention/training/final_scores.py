"""What a run is judged by in the end: dev and test, scored with checkpoints it has saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attention.training import averaging
from attention.training.checkpoint import Checkpoints
from attention.training.evaluate import Evaluator, Predictor
from attention.training.experiment import Experiment
from attention.training.result import Averaged, write_evaluation


class FinalScores:
    """Scores checkpoints of a run and writes what comes of it to eval/.

    Args:
      checkpoints: those of the run; nothing is being saved.
      evaluators: by split.
      poll: called between batches; it may raise `Interrupted`.
    """

    def __init__(
        self,
        experiment: Experiment,
        checkpoints: Checkpoints,
        evaluators: Mapping[str, Evaluator],
        predictor: Predictor,
        *,
        poll: Callable[[], None],
    ) -> None:
        self._x = experiment
        self._checkpoints = checkpoints
        self._evaluators = evaluators
        self._predictor = predictor
        self._poll = poll

    def score(
        self, params: Any, *, step: int, averaged: Sequence[int] = ()
    ) -> dict[str, dict[str, float]]:
        """Scores dev and test with placed parameters; returns the metrics by split."""
        metrics: dict[str, dict[str, float]] = {}
        for split, evaluator in self._evaluators.items():
            evaluation = evaluator(self._predictor, params, poll=self._poll)
            write_evaluation(
                self._x.run, evaluator, evaluation, split=split, step=step, averaged=averaged
            )
            metrics[split] = evaluation.metrics
        return metrics

    def best_checkpoint(self) -> tuple[int, Any]:
        """The best step saved, and its parameters, placed."""
        restored = self._checkpoints.restore(self._abstract(), "best")
        assert restored is not None  # only a restore without a step gives None
        return restored.step, self._x.parallel.place(restored.state.params)

    def average(self, steps: Sequence[int]) -> Averaged:
        """Scores the mean of the checkpoints of some steps."""
        steps, params = averaging.average(self._checkpoints, self._abstract(), steps)
        placed = self._x.parallel.place(params)
        return Averaged(steps, self.score(placed, step=steps[-1], averaged=steps))

    def _abstract(self) -> Any:
        return self._x.parallel.abstract(self._x.initial_state())
