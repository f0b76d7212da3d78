"""Which trials a worker takes next: one, or several that one program trains at once."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attention import configuration
from attention.errors import UserError
from attention.sweeping.ledger import Try
from attention.sweeping.plan import Trial
from attention.sweeping.running import Job
from attention.sweeping.setting import Scene

if TYPE_CHECKING:
    from attention.training.vectorize_width import Width

log = logging.getLogger(__name__)

AUTO = "auto"
_MOST = 64  # at once, however much memory there is


def read_width(text: str) -> str:
    """Returns the value of --vectorize; raises UserError unless it is a count or "auto"."""
    if text != AUTO and not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST):
        raise UserError(f"--vectorize={text}: expected auto, or the number of runs to train at once"
                        f", 1 to {_MOST}")  # fmt: skip
    return text


class Groups:
    """The groups that one worker runs, one after the other.

    Args:
      scene: the sweep.
      vectorize: how many trials train at once: a count, or "auto": what a measurement says.
      shared: `training.shared.Shared`, which keeps what trials have in common; None where
        trials are not trained by this repository's loop, and then none are joined.
    """

    def __init__(self, scene: Scene, *, vectorize: str, shared: Any) -> None:
        self._scene = scene
        self._vectorize = vectorize if shared is not None else "1"
        self._shared: Any = shared
        self._configs: dict[str, Any] = {}
        self._widths: dict[tuple[str, bool], Width] = {}  # by program, and its kind of batches
        self._alone: set[str] = set()  # programs that failed for several at once

    def next(self) -> list[Job]:
        """Claims the trials to run next; empty where none is left."""
        first = self._first()
        if first is None:
            return []
        config = None if self._vectorize == "1" else self._config(first.trial)
        if config is None or configuration.program_of(config) in self._alone:
            return [first]
        jobs = [first]
        alike, width = self._alike(first.trial, config)
        for trial in alike:
            if len(jobs) < width and (job := claim_job(self._scene, trial)):
                jobs.append(job)
        return jobs

    def learn(self, jobs: Sequence[Job], outcomes: Sequence[Try]) -> None:
        """Takes note of how a group ended: where trials failed only because they ran at once, all
        with their program run alone from then on."""
        failed = [outcome for outcome in outcomes if outcome.kind == "together"]
        if not failed:
            return
        self._alone.add(configuration.program_of(self._config(jobs[0].trial)))
        gc.collect()  # an error and the frames it came through hold each other, and arrays
        log.warning("--vectorize=%s: from here on trials of this program run one at a time, as %s",
                    self._vectorize, failed[0].error)  # fmt: skip

    def _first(self) -> Job | None:
        for trial in self._scene.board.known().trials:
            if job := claim_job(self._scene, trial):
                return job
        while chosen := self._scene.board.ask():
            if job := claim_job(self._scene, chosen):
                return job
            self._scene.board.settle({chosen.name: self._scene.standings.of(chosen)})
        return None

    def _alike(self, first: Trial, config: Any) -> tuple[list[Trial], int]:
        """The trials that can train together with one that is claimed, and how many are to."""
        known = self._scene.board.known()
        step = self._newest_step(first)
        others = [
            trial
            for trial in known.trials
            if trial.name != first.name and self._scene.standings.of(trial).open
        ]
        alike = [trial for trial in others if self._is_alike(trial, config, step)]
        left = known.left if step == 0 else 0  # what is yet to be chosen begins at step 0
        width = self._width([config, *map(self._config, alike)], most=1 + len(alike) + left)
        # A search chooses without knowing what the others of the group will give: as few as will
        # do, and none while there are enough that wait for a group of their own.
        for _ in range(min(left, width - 1 - len(others))):
            chosen = self._scene.board.ask()
            if chosen is not None and self._is_alike(chosen, config, step):
                alike.append(chosen)
        return alike, width

    def _is_alike(self, trial: Trial, config: Any, step: int) -> bool:
        from attention.training import vectorize

        other = self._config(trial)
        if other is None:
            return False
        try:
            vectorize.check_alike([config, other])
        except UserError:  # of a group of its own
            return False
        return self._newest_step(trial) == step

    def _newest_step(self, trial: Trial) -> int:
        from attention.training import vectorize

        return vectorize.newest_step(str(self._scene.directory.run(trial).path))

    def _width(self, alike: list[Any], *, most: int) -> int:
        """How many of at most so many trials like these to train at once."""
        if self._vectorize != AUTO:
            return int(self._vectorize)
        most = min(most, _MOST)
        if most == 1:  # there is nothing to measure
            return 1
        from attention.training import vectorize

        # The first two tell it for most orders of points: a larger group may differ all the same.
        kind = configuration.program_of(alike[0]), vectorize.have_own_batches(alike[:2])
        width = self._widths.get(kind)
        # What was measured for a few says nothing of more, which may come later.
        if width is None or (width.untried is not None and width.untried <= most):
            width = self._widths[kind] = self._measure(alike[0], most=most, own_batches=kind[1])
        return width.best

    def _measure(self, config: Any, *, most: int, own_batches: bool) -> Width:
        from attention.training.vectorize_width import Width, choose_width

        try:
            return choose_width(config, most=most, own_batches=own_batches, shared=self._shared)
        except Exception as error:  # a trial alone meets it again, or not; its outcome says which
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            log.warning("--vectorize=auto: one at a time, as measuring failed: %s", reason)
            return Width(best=1)

    def _config(self, trial: Trial) -> Any:
        """The config of a trial; None where it is refused, which its own run will say."""
        if trial.name not in self._configs:
            try:
                self._configs[trial.name] = trial.load()
            except UserError:
                self._configs[trial.name] = None
        return self._configs[trial.name]


def claim_job(scene: Scene, trial: Trial) -> Job | None:
    """Returns a trial as this process's job, if it is to be run and nobody else is at it."""
    if not scene.standings.of(trial).open:
        return None
    claim = scene.ledger.claim(trial.name, wanted=lambda: scene.standings.wanted(trial))
    if claim is None:
        return None
    workdir = scene.directory.run(trial).path
    prune = scene.board.pruner(trial)
    return Job(trial, claim, workdir, scene.directory.log(trial), prune)
