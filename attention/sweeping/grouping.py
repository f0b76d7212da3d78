"""Which trials a worker takes next: one, or several that one program trains at once."""

from __future__ import annotations

from typing import Any

from attention import configuration
from attention.errors import UserError
from attention.sweeping.plan import Trial
from attention.sweeping.running import Job
from attention.sweeping.setting import Scene

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
        self._widths: dict[str, int] = {}

    def next(self) -> list[Job]:
        """Claims the trials to run next; empty where none is left."""
        first = self._first()
        if first is None:
            return []
        config = None if self._vectorize == "1" else self._config(first.trial)
        if config is None:
            return [first]
        alike = self._alike(first.trial, config)
        width = self._width(config, most=len(alike) + 1)
        jobs = [first]
        for trial in alike:
            if len(jobs) < width and (job := claim_job(self._scene, trial)):
                jobs.append(job)
        return jobs

    def _first(self) -> Job | None:
        for trial in self._scene.board.known().trials:
            if job := claim_job(self._scene, trial):
                return job
        while chosen := self._scene.board.ask():
            if job := claim_job(self._scene, chosen):
                return job
            self._scene.board.settle({chosen.name: self._scene.standings.of(chosen)})
        return None

    def _alike(self, first: Trial, config: Any) -> list[Trial]:
        """The open trials that can train together with one that is claimed."""
        from attention.training import vectorize

        known = self._scene.board.known()
        wanted = _MOST if self._vectorize == AUTO else int(self._vectorize)
        trials = [trial for trial in known.trials if trial.name != first.name]
        # A search chooses without knowing what the others of the group will give.
        while known.left and len(trials) + 1 < wanted and (chosen := self._scene.board.ask()):
            trials.append(chosen)
        step = vectorize.newest_step(str(self._scene.directory.run(first).path))
        alike = []
        for trial in trials:
            other = self._config(trial) if self._scene.standings.of(trial).open else None
            workdir = str(self._scene.directory.run(trial).path)
            if other is None or vectorize.newest_step(workdir) != step:
                continue
            try:
                vectorize.check_alike([config, other])
            except UserError:  # of a group of its own
                continue
            alike.append(trial)
        return alike

    def _width(self, config: Any, *, most: int) -> int:
        if self._vectorize != AUTO:
            return int(self._vectorize)
        from attention.training.vectorize_width import choose_width

        program = configuration.program_of(config)
        if program not in self._widths:
            self._widths[program] = choose_width(config, most=most, shared=self._shared)
        return self._widths[program]

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
