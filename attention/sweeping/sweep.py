"""A whole sweep: plan, start workers, show how it stands, write down what came out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from attention.errors import Interrupted, UserError
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.grouping import read_width
from attention.sweeping.plan import Sweep, Trial, plan
from attention.sweeping.running import TRAINER
from attention.sweeping.setting import Scene, Setting, open_scene
from attention.sweeping.standing import Standing
from attention.sweeping.table import Seen, Table
from attention.sweeping.workers import Workers
from attention.training.interrupt import interruptible

LOOK_SECONDS = 0.5
_LOOK_SHARE = 100  # looking takes one part in so many of a core, which the workers want
_MOST_LOOKS_APART = 20
_TAIL_BYTES = 4096


class Selection(NamedTuple):
    """Which trials of a sweep: the first so many, the one of an index, or all."""

    trials: int | None = None
    index: int | None = None

    def numbers(self, sweep: Sweep) -> list[int]:
        """The numbers of the chosen points."""
        numbers = list(range(len(sweep.points)))
        if self.index is None:
            return numbers[: self.trials]
        if self.index not in numbers:
            raise UserError(f"--index={self.index}: expected 0 to {len(numbers) - 1}")
        return [self.index]

    def check(self, sweep: Sweep, *, workers: int = 1) -> None:
        """Raises UserError for a selection that this sweep cannot have, or no worker."""
        check_workers(workers)
        if self.trials is not None and self.trials < 1:
            raise UserError(f"--trials={self.trials}: expected 1 or more")
        if self.index is not None and sweep.space is not None:
            raise UserError(
                f"--index={self.index} chooses a point, and this sweep() is a search space, whose "
                "points depend on each other: start the same command several times instead"
            )
        if self.index is not None and self.trials is not None:
            raise UserError("--index and --trials exclude each other")
        if sweep.space is None:
            self.numbers(sweep)


def check_workers(number: int) -> None:
    if number < 1:
        raise UserError(f"--workers={number}: expected 1 or more")


def make_setting(
    sweep: Sweep,
    workdir: str | os.PathLike[str],
    selection: Selection,
    *,
    retries: int = 1,
    storage: str | None = None,
    train: str = TRAINER,
    vectorize: str = "1",
) -> Setting:
    """Plans the trials of a sweep.

    Raises:
      UserError: a flag is wrong, or every config is refused.
    """
    selection.check(sweep)
    if retries < 0:
        raise UserError(f"--retries={retries}: expected 0 or more")
    wanted = len(sweep.points) if sweep.space is None else sweep.space.trials
    trials = None if sweep.space else plan(sweep, selection.numbers(sweep))
    return Setting(
        spec=sweep.spec,
        flags=tuple(sweep.flags),
        workdir=os.fspath(workdir),
        trials=trials,
        wanted=len(trials) if trials is not None else selection.trials or wanted,
        since=time.time(),
        retries=retries,
        storage=storage,
        train=train,
        vectorize=read_width(vectorize),
    )


def run_sweep(sweep: Sweep, setting: Setting, *, workers: int = 1) -> list[Seen]:
    """Runs what is missing of a sweep, and returns how each trial stands at the end.

    Raises:
      UserError: the folder, the database or the number of workers is wrong.
      Interrupted: after SIGINT or SIGTERM, once running trials are saved.
      Failure: no worker can be started.
    """
    check_workers(workers)
    directory = SweepDirectory(setting.workdir)
    directory.create(sweep, storage=_public(setting.storage))
    with directory.lock():  # the first to open an embedded database makes its tables
        scene = open_scene(setting, sweep)
    print(f"sweeping {sweep.spec} in {setting.workdir}", file=sys.stderr)
    table, recorded = Table(), None
    with interruptible() as interrupt, Workers(workers, setting, directory) as pool:
        while True:
            start = time.monotonic()
            seen, left = look(scene)
            if recorded != (recorded := [each.standing for each in seen]):
                record(scene, sweep, seen)
            spent = time.monotonic() - start
            table.show(seen, wanted=len(seen) + left, workers=workers)
            if interrupt.requested:
                break
            to_do = left + sum(each.standing.open for each in seen)
            running = [each.standing.process for each in seen if each.standing.status == "running"]
            attempts = sum(each.standing.attempts for each in seen)
            pool.keep(to_do, running=running, attempts=attempts)
            if not (to_do or running or len(pool)):
                return seen
            for _ in range(looks_apart(spent)):
                if not interrupt.requested:
                    time.sleep(LOOK_SECONDS)
    record(scene, sweep, look(scene)[0])
    raise Interrupted(f"stopped by {interrupt.requested}; the same command goes on")


def looks_apart(seconds: float) -> int:
    """How many LOOK_SECONDS to wait after a look that took so many seconds: hundreds of trials, or
    a slow file system, are not looked at all the time."""
    return min(max(1, round(seconds * _LOOK_SHARE / LOOK_SECONDS)), _MOST_LOOKS_APART)


def _public(storage: str | None) -> str | None:
    if storage is None:
        return None
    from attention.sweeping import database

    return database.without_password(storage)


def look(scene: Scene) -> tuple[list[Seen], int]:
    """How each trial known so far stands, and how many more are to be chosen.

    The board learns what has ended.
    """
    trials, left = scene.board.known()
    standings = {trial.name: scene.standings.of(trial) for trial in trials}
    scene.board.settle(standings)
    return [_see(scene, trial, standings[trial.name]) for trial in trials], left


def _see(scene: Scene, trial: Trial, standing: Standing) -> Seen:
    row = _last_row(scene, trial) if standing.status == "running" else {}
    return Seen(trial, standing, row)


def _last_row(scene: Scene, trial: Trial) -> dict[str, Any]:
    """The newest whole row of a run's metrics, or an empty one."""
    try:
        with scene.directory.run(trial).metrics_file.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            *lines, _ = file.read().split(b"\n")
        return json.loads(lines[-1]) if lines else {}
    except (FileNotFoundError, ValueError):
        return {}


def record(scene: Scene, sweep: Sweep, seen: Sequence[Seen]) -> None:
    """Writes trials.jsonl, and the logs of refused trials, which it names; the statuses are read
    again under its lock, so that none is older than what another sweep has written."""
    directory = scene.directory
    points = dict(enumerate(sweep.points)) or {each.trial.number: each.trial.point for each in seen}
    with directory.lock():
        for each in seen:
            if each.trial.config_hash is None:
                directory.write_refusal(each.trial)
        standings = [scene.standings.of(each.trial) for each in seen]
        rows = [
            row(directory, each.trial, standing, sweep)
            for each, standing in zip(seen, standings, strict=True)
        ]
        directory.write_rows(rows, points=points, solved=sweep.budget and sweep.budget.solve)


def row(
    directory: SweepDirectory, trial: Trial, standing: Standing, sweep: Sweep
) -> dict[str, Any]:
    """A trial as trials.jsonl has it."""
    budget = {"budget": sweep.budget.kind, "budget_amount": sweep.amount} if sweep.budget else {}
    refused = trial.config_hash is None
    return {
        "trial": trial.number,
        "config_hash": trial.config_hash,
        "overrides": trial.point,
        **budget,
        "status": standing.status,
        "workdir": None if refused else str(directory.as_typed(trial)),
        "metric": standing.metric,
        "metric_name": standing.metric_name,
        "attempts": standing.attempts,
        "error": standing.error,
        "log": f"{directory.as_typed(trial)}.log",
        "command": trial.command(directory.as_typed(trial)),
    }
