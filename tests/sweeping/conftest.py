"""What the tests of sweeps share: a trainer that is quick, and sweeps with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention.sweeping import sweep as sweeping
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.plan import read_sweep
from attention.sweeping.setting import Setting, open_scene
from attention.sweeping.table import Seen
from attention.sweeping.worker import take_trials

TESTS = Path(__file__).parents[1]
RunSweep = Callable[..., list[Seen]]


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the fake trainer, which workers can import."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent)]))
    monkeypatch.setattr(sweeping, "LOOK_SECONDS", 0.05)
    return "support.fake_training:train"


class WorkersHere:
    """Does the work of all workers in this process, which starts quicker."""

    def __init__(self, number: int, setting: Setting, directory: SweepDirectory) -> None:
        self._setting = setting

    def __enter__(self) -> WorkersHere:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __len__(self) -> int:
        return 0

    def keep(self, to_do: int, **_: object) -> None:
        if to_do:
            take_trials(open_scene(self._setting), self._setting)


@pytest.fixture
def run_here(run_sweep: RunSweep, monkeypatch: pytest.MonkeyPatch) -> RunSweep:
    """Runs a config file's sweep with the fake trainer, in this process alone."""
    monkeypatch.setattr(sweeping, "Workers", WorkersHere)
    return run_sweep


@pytest.fixture
def run_sweep(trainer: str) -> RunSweep:
    """Runs a config file's sweep with the fake trainer, in worker processes."""

    def run(
        recipe: Path,
        workdir: Path,
        *,
        workers: int = 1,
        flags: tuple = (),
        selection: tuple = (),
        **more: Any,
    ) -> list[Seen]:
        swept = read_sweep(str(recipe), flags)
        chosen = sweeping.Selection(*selection)
        setting = sweeping.make_setting(swept, workdir, chosen, train=trainer, **more)
        return sweeping.run_sweep(swept, setting, workers=workers)

    return run
