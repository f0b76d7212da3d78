"""Training from a config to a result: start or resume, step, log, evaluate, save."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from attention import configuration
from attention.data.streams import token_streams
from attention.errors import Interrupted
from attention.training import averaging, tracking
from attention.training.checkpoint import Checkpoints
from attention.training.claim import claim_directory
from attention.training.clock import Clock
from attention.training.evaluate import Evaluation
from attention.training.experiment import Experiment, prepare
from attention.training.final_scores import FinalScores
from attention.training.interrupt import interruptible
from attention.training.memory import PeakMemory
from attention.training.metrics_log import MetricsLog
from attention.training.peak import peak_flops
from attention.training.profiled_steps import Steps, check_steps
from attention.training.profiling import Profile
from attention.training.result import Record
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
    interrupt_at_the_end: Any = None,
    memory: PeakMemory | None = None,
    profile: Steps | None = None,
) -> dict[str, Any]:
    """Trains a config in a run directory, or goes on where it stopped.

    Args:
      config: resolved.
      workdir: the run directory.
      prune: may end the run early.
      shared: what earlier runs of this process have left for those like them.
      parallel: how its steps are wrapped; None = as the config says.
      interrupt: its `requested` says that the run is to stop; None = Ctrl-C and SIGTERM.
      interrupt_at_the_end: the same after its last step; None = no other.
      memory: what it shares with runs that train at once; None = its own.
      profile: the steps to write a trace of.

    Returns the content of `result.json`. Raises `UserError` for wrong input (also a directory that
    holds another config), `Interrupted` after saving, `Failure` where the loss is no number.
    """
    tracking.require(config)
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
            check_steps(profile, at_step=result["step"], total_steps=experiment.total_steps)
            log.info("already complete: %s", run.path)
            return result
        # Only from here on is there something to save before a signal ends the run.
        with contextlib.nullcontext(interrupt) if interrupt else interruptible() as asked:
            options = {"prune": prune, "memory": memory or PeakMemory(), "profile": profile}
            trainer = Trainer(experiment, asked, interrupt_at_the_end, **options)
            with contextlib.closing(trainer):
                return trainer.train()


class Trainer:
    """The moving parts of a run: state, data position, clock, logs, checkpoints."""

    def __init__(
        self,
        experiment: Experiment,
        interrupt: Any,
        interrupt_at_the_end: Any = None,
        *,
        memory: PeakMemory,
        prune: Pruner | None = None,
        profile: Steps | None = None,
    ) -> None:
        self._x = experiment
        self._interrupt = interrupt
        self._interrupt_at_the_end = interrupt_at_the_end or interrupt
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
        self._memory = memory
        memory.begin()  # not before: of runs that share their data one alone has prepared it
        folder = experiment.run.path / "profile"
        self._profile = Profile(profile, folder, self._compile_seconds, self._finish_steps)
        self._restore(profile)

    # -- start ---------------------------------------------------------------------------------

    def _restore(self, profile: Steps | None) -> None:
        """Puts everything where the newest whole checkpoint left it; else at the beginning."""
        x = self._x
        start = x.initial_state()
        restored = self._checkpoints.restore(self._parallel.abstract(start))
        state, past = (restored.state, restored.data_state) if restored else (start, {})
        if restored:
            x.check_same_data(past["data"])
        self._state: TrainState = self._parallel.place(state)
        self.step = int(state.step)
        check_steps(profile, at_step=self.step, total_steps=x.total_steps)
        tracked = tracking.start(x.config, x.run, resume_step=self.step)
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
        self.record = Record(x, self._clock, self._memory)
        self._log = MetricsLog(
            x.run, total_steps=x.total_steps, resume_step=self.step, tracked=tracked
        )
        self._log_start = self._clock.record()
        self._pending: tuple[int, Any, dict[str, int], int] | None = None

    def _compile_seconds(self) -> float:
        seconds = self._train_step.compile_seconds + self._predictor.compile_seconds
        return seconds - self._compiled_before

    # -- the loop ------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Runs to the end and returns the result; says in result.json how it ended otherwise."""
        try:
            with contextlib.closing(self._profile):
                self.run_to_the_end()
            result = self.finish()
            self._log.end(result)
            return result
        except Interrupted:
            self.save_and_leave()
            raise
        except Exception:
            with contextlib.suppress(OSError):  # a full disk must not hide what went wrong first
                self._log.end(self.record.write("failed", self.step))
            raise

    def run_to_the_end(self) -> None:
        """Steps until the last; each is followed by what is due after it."""
        if self._due("eval") and not self.record.has_evaluated(self.step):
            self._evaluate()  # the run had stopped between this step and its evaluation
        while not self._at_the_end:
            with self._profile.step(self.step + 1):
                self._take_step()
            self._profile.after_step(self.step)
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
            amounts = {
                "tokens": sum(int(np.count_nonzero(each)) for each in ids),
                "positions": sum(each.size for each in ids),
            }
            flops = self._train_step.flops(placed)
            self._pending = (self.step, metrics, amounts, flops)
            self._log.progress(self.step)
            if any(self._due(what) for what in self._every) or self._interrupt.requested:
                self._fetch()

    def _fetch(self) -> None:
        """Waits for the metrics of the step in flight and adds them up."""
        if self._pending is None:
            return
        step, metrics, amounts, flops = self._pending
        self._pending = None
        host = jax.device_get(self._parallel.one_copy(metrics))
        self._clock.count(**amounts, flops=flops)
        self._window.add(step, host, **amounts)

    def _finish_steps(self) -> None:
        """Waits until the steps taken have ended on the device."""
        with self._clock.training():
            self._fetch()
            jax.block_until_ready(self._state)

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
        interrupt = self._interrupt_at_the_end if self._at_the_end else self._interrupt
        if interrupt.requested:
            raise Interrupted(f"stopped by {interrupt.requested}")

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
        self._log.end(self.record.write("interrupted", self.step))

    def finish(self) -> dict[str, Any]:
        """Scores dev and test with the best checkpoint and writes the result."""
        self._checkpoints.wait()
        if self._pruned and self.step < self._x.total_steps:
            return self.record.write("pruned", self.step)
        scores = FinalScores(
            self._x, self._checkpoints, self._evaluators, self._predictor, poll=self._stop_if_asked
        )
        if self.record.best_step in (None, self.step):  # the newest where nothing was scored
            at, params = self.step, self._state.params
        else:
            at, params = scores.best_checkpoint()
        metrics = scores.score(params, step=at)
        wanted = averaging.wanted(self._x.config)
        averaged = scores.average(self._to_average) if wanted else None
        return self.record.write(
            "complete", self.step, best_step=at, metrics=metrics, averaged=averaged
        )

    def close(self) -> None:
        """Ends what goes on in the background, and lets go of the state."""
        self._log.close()
        self._checkpoints.close()
        # Parts of this object point back at it, so it waits for the garbage collector, which does
        # not see what a device holds; the next run needs the memory now.
        del self._state


def _counts(prefix: str, evaluation: Evaluation) -> dict[str, int]:
    return {f"{prefix}/{name}": value for name, value in evaluation.counts.items()}
