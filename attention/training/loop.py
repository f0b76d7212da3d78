"""Training from a config to a result: start or resume, step, log, evaluate, save."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from attention import configuration
from attention.data.streams import token_streams
from attention.errors import Interrupted
from attention.training import averaging
from attention.training.checkpoint import Checkpoints
from attention.training.clock import Clock
from attention.training.evaluate import Evaluation
from attention.training.experiment import Experiment, prepare
from attention.training.interrupt import interruptible
from attention.training.metrics_log import MetricsLog
from attention.training.peak import peak_flops
from attention.training.result import Averaged, Record, write_evaluation
from attention.training.run_directory import RunDirectory
from attention.training.runtime import set_up_runtime
from attention.training.shared import Shared
from attention.training.state import TrainState
from attention.training.window import Window

log = logging.getLogger(__name__)

# Called after each evaluation with the step and the metrics on dev; True: the run is not worth
# going on with, and ends as "pruned".
Pruner = Callable[[int, Mapping[str, float]], bool]


def train(
    config: Any,
    workdir: str,
    *,
    prune: Pruner | None = None,
    shared: Shared | None = None,
    parallel: Any = None,
    interrupt: Any = None,
) -> dict[str, Any]:
    """Trains a config in a run directory, or goes on where it stopped.

    Args:
      config: resolved.
      workdir: the run directory.
      prune: may end the run early.
      shared: what earlier runs of this process have left for those like them.
      parallel: how its steps are wrapped; None = as the config says.
      interrupt: its `requested` says that the run is to stop; None = Ctrl-C and SIGTERM.

    Returns the content of `result.json`. Raises `UserError` for wrong input (also a directory that
    holds another config), `Interrupted` after saving, `Failure` where the loss is no number.
    """
    run = RunDirectory(workdir)
    with run.lock():
        set_up_runtime(config)
        config = claim_directory(run, config)
        with Checkpoints(run.checkpoints, read_only=True) as checkpoints:
            past_ends = checkpoints.newest_data_state().get("ends", ())
        if shared and not parallel:
            shared.begin(configuration.program_of(config))
        experiment = prepare(config, run, past_ends=past_ends, shared=shared, parallel=parallel)
        if result := run.completed(experiment.total_steps):
            log.info("already complete: %s", run.path)
            return result
        # Only from here on is there something to save before a signal ends the run.
        with (
            contextlib.nullcontext(interrupt) if interrupt else interruptible() as asked,
            contextlib.closing(Trainer(experiment, asked, prune)) as trainer,
        ):
            return trainer.train()


def claim_directory(run: RunDirectory, config: Any) -> Any:
    """Writes config.json in a new directory; compares with it in one that holds progress."""
    text = run.read_config()
    if text is not None and run.has_progress:
        saved = configuration.from_json(text, source=str(run.config_file))
        config = configuration.choose_implementation(config, saved=saved)
        config = configuration.continue_with(saved, config, where=str(run.path))
    elif text is not None:
        run.forget()  # a command that failed before its first step protects nothing
        config = configuration.choose_implementation(config)
    else:
        config = configuration.choose_implementation(config)
    run.write_config(configuration.to_json(config))
    return config


class Trainer:
    """The moving parts of a run: state, data position, clock, logs, checkpoints."""

    def __init__(self, experiment: Experiment, interrupt: Any, prune: Pruner | None = None) -> None:
        self._x = experiment
        self._interrupt = interrupt
        self._prune = prune
        self._pruned = False
        self._parallel = experiment.parallel
        config = experiment.config
        self._hyper = self._parallel.place(experiment.hyper)
        self._train_step = experiment.train_step()
        self._token_streams = token_streams(experiment.task.STREAMS)
        self._predictor = experiment.predictor()
        # Another run may have compiled them already.
        self._compiled_before = 0.0
        self._compiled_before = self._compile_seconds()
        self._evaluators = experiment.evaluators()
        averaging.check(config, self._evaluators)
        self._checkpoints = Checkpoints(
            experiment.run.checkpoints,
            best=experiment.run.best_of(f"eval/{experiment.task.METRICS[0]}"),
        )
        self._every = {
            what: experiment.steps(config[f"{what}_every_steps"])
            for what in ("log", "eval", "checkpoint")
        }
        peak_flops(config.dtype)  # measured now, while nothing is saved in the background
        self._restore()

    # -- start ---------------------------------------------------------------------------------

    def _restore(self) -> None:
        """Puts everything where the newest whole checkpoint left it; else at the beginning."""
        x = self._x
        start = x.initial_state()
        restored = self._checkpoints.restore(self._parallel.abstract(start))
        state, past = (restored.state, restored.data_state) if restored else (start, {})
        if restored:
            x.check_same_data(past["data"])
        self._state: TrainState = self._parallel.place(state)
        self.step = int(state.step)
        x.run.truncate_metrics(self.step)
        self._iterator = x.iterator()
        if restored:
            log.info("resuming at step %d of %d", self.step, x.total_steps)
            self._iterator.set_state(past["iterator"])
        self._window = Window(past.get("window"))
        self._clock = Clock(
            self._compile_seconds,
            past.get("clock"),
            idle_seconds=lambda: self._train_step.idle_seconds,
        )
        self.record = Record(x, self._clock)
        self._log = MetricsLog(x.run, total_steps=x.total_steps, resume_step=self.step)
        self._log_start = self._clock.record()
        self._pending: tuple[int, Any, int, int] | None = None

    def _compile_seconds(self) -> float:
        seconds = self._train_step.compile_seconds + self._predictor.compile_seconds
        return seconds - self._compiled_before

    # -- the loop ------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Runs to the end and returns the result; says in result.json how it ended otherwise."""
        try:
            self.run_to_the_end()
            return self.finish()
        except Interrupted:
            self.save_and_leave()
            raise
        except Exception:
            with contextlib.suppress(OSError):  # a full disk must not hide what went wrong first
                self.record.write("failed", self.step)
            raise

    def run_to_the_end(self) -> None:
        """Steps until the last; each is followed by what is due after it."""
        if self._due("eval") and not self.record.has_evaluated(self.step):
            self._evaluate()  # the run had stopped between this step and its evaluation
        while not self._at_the_end:
            self._take_step()
            if self._due("log"):
                self._write_log()
            if self._due("eval"):
                self._evaluate()
            if self._due("checkpoint") or self._is_kept:
                self._save()
            if not self._at_the_end:  # what was decided there would be lost
                self._stop_if_asked()
        if self._pruned:
            log.info("pruned at step %d of %d", self.step, self._x.total_steps)
        elif self.step < self._x.total_steps:
            log.info(
                "stopping early at step %d: eval/%s has not risen since step %d, for "
                "early_stopping_evaluations=%d evaluations",
                self.step, self._x.task.METRICS[0], self.record.best_step,
                self._x.config.early_stopping_evaluations,
            )  # fmt: skip

    @property
    def _at_the_end(self) -> bool:
        return self._pruned or self.step >= self._x.total_steps or self.record.stopped_early

    @property
    def _is_kept(self) -> bool:
        """Whether the checkpoint of this step is the best, or going to be averaged with others."""
        return self.step in (self.record.best_step, *self._to_average)

    @property
    def _to_average(self) -> list[int]:
        return averaging.last_evaluated(self._x.config, self.record.evaluated)

    def _due(self, what: str) -> bool:
        return self.step > 0 and (self._at_the_end or self.step % self._every[what] == 0)

    def _take_step(self) -> None:
        """Dispatches one step, then fetches the metrics of the one before: the host never waits
        for the device with nothing dispatched."""
        with self._clock.training():
            with self._clock.waiting():
                batch = next(self._iterator)
            placed = self._parallel.place_batch(batch)
            self._state, metrics = self._train_step(self._state, placed, self._hyper)
            self._fetch()
            self.step += 1
            ids = [batch[stream.name]["segment_ids"] for stream in self._token_streams]
            tokens = sum(int(np.count_nonzero(each)) for each in ids)
            self._pending = (self.step, metrics, tokens, sum(each.size for each in ids))
            self._log.progress(self.step)
            if any(self._due(what) for what in self._every) or self._interrupt.requested:
                self._fetch()

    def _fetch(self) -> None:
        """Waits for the metrics of the step in flight and adds them up."""
        if self._pending is None:
            return
        step, metrics, tokens, positions = self._pending
        self._pending = None
        host = jax.device_get(self._parallel.one_copy(metrics))
        self._clock.count(tokens=tokens, positions=positions)
        self._window.add(step, host, tokens=tokens, positions=positions)

    def _write_log(self) -> None:
        rates = self._clock.rates_since(self._log_start)
        self._log_start = self._clock.record()
        self._log.write(self.step, {**self._window.close(), **self.record.speed(rates)})

    def _evaluate(self) -> None:
        """Scores dev, and writes down whether this is the best so far."""
        evaluator = self._evaluators.get("dev")
        if evaluator is None:
            self.record.write("running", self.step)
            return
        evaluation = evaluator(self._predictor, self._state.params, poll=self._stop_if_asked)
        metrics = {f"eval/{name}": value for name, value in evaluation.metrics.items()}
        self._log.write(self.step, {**metrics, **_counts("eval", evaluation)})
        self.record.add_evaluation(self.step, evaluation)
        self._x.run.write_samples(self.step, list(evaluator.lines(evaluation, limit=8)))
        self.record.write("running", self.step)
        self._pruned = self._prune is not None and self._prune(self.step, evaluation.metrics)

    def _stop_if_asked(self) -> None:
        if self._interrupt.requested:
            raise Interrupted(f"stopped by {self._interrupt.requested}")

    # -- the end -------------------------------------------------------------------------------

    def _save(self) -> None:
        """Saves the state, and where data, window and clock stand."""
        position = {
            "data": self._x.data_hashes,
            "ends": self._x.plan.ends_before(self.step),
            "iterator": self._iterator.get_state(),
            "window": self._window.record(),
            "clock": self._clock.record(),
        }
        state = self._parallel.one_copy(self._state)
        kept = {"best_step": self.record.best_step, "others": self._to_average}
        self._checkpoints.save(self.step, state, position, **kept)

    def save_and_leave(self) -> None:
        """Saves the last finished step before the program ends early."""
        self._fetch()
        if self.step:
            self._save()
            self._checkpoints.wait()
            log.info("saved step %d in %s; the same command goes on", self.step, self._x.run.path)
        self.record.write("interrupted", self.step)

    def finish(self) -> dict[str, Any]:
        """Scores dev and test with the best checkpoint and writes the result."""
        self._checkpoints.wait()
        if self._pruned and self.step < self._x.total_steps:
            return self.record.write("pruned", self.step)
        at, params = self._best()
        metrics = self._score(params, step=at)
        averaged = self._average() if averaging.wanted(self._x.config) else None
        return self.record.write(
            "complete", self.step, best_step=at, metrics=metrics, averaged=averaged
        )

    def _score(
        self, params: Any, *, step: int, averaged: Sequence[int] = ()
    ) -> dict[str, dict[str, float]]:
        """Scores dev and test, writes what came of it, and returns the metrics by split."""
        metrics: dict[str, dict[str, float]] = {}
        for split, evaluator in self._evaluators.items():
            evaluation = evaluator(self._predictor, params, poll=self._stop_if_asked)
            write_evaluation(
                self._x.run, evaluator, evaluation, split=split, step=step, averaged=averaged
            )
            metrics[split] = evaluation.metrics
        return metrics

    def _average(self) -> Averaged:
        """Scores the mean of the last evaluated checkpoints."""
        abstract = self._parallel.abstract(self._x.initial_state())
        steps, params = averaging.average(self._checkpoints, abstract, self._to_average)
        placed = self._parallel.place(params)
        return Averaged(steps, self._score(placed, step=steps[-1], averaged=steps))

    def _best(self) -> tuple[int, Any]:
        """The best step and its parameters, placed; the newest where nothing was scored."""
        if self.record.best_step in (None, self.step):
            return self.step, self._state.params
        abstract = self._parallel.abstract(self._x.initial_state())
        restored = self._checkpoints.restore(abstract, "best")
        assert restored is not None  # only a restore without a step gives None
        return restored.step, self._parallel.place(restored.state.params)

    def close(self) -> None:
        self._log.close()
        self._checkpoints.close()


def _counts(prefix: str, evaluation: Evaluation) -> dict[str, int]:
    return {f"{prefix}/{name}": value for name, value in evaluation.counts.items()}
