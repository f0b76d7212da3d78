"""Trackio: a SQLite file of this machine (`TRACKIO_DIR`), or a server by its own variables.

A step that is logged again is kept twice. Runs in threads do not disturb each other, since what it
calls the current run belongs to a thread's context. It finds a run that goes on by its name, the
newest of that name: another one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from attention.errors import UserError
from attention.training.tracking.tracker import Description

trackio: Any = import_module("trackio")  # not this file


class Run:
    """A run, which has no place for results but a last row."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self.id: str = run.id

    def log(self, step: int, seconds: float, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def end(self, status: str, step: int, results: Mapping[str, Any]) -> None:
        self._run.log({"status": status, **results}, step=step)
        trackio.finish()  # of this thread's run; else it is finished once more at exit


def start(description: Description) -> Run:
    run = trackio.init(
        project=description.project,
        name=description.name,
        group=description.group,
        config=dict(description.config),
        resume="must" if description.id else "never",
        embed=False,
    )
    if description.id and run.id != description.id:
        run.finish()
        raise UserError(
            f"trackio goes on with the newest run called {description.name!r}, and in "
            f"tracking.project={description.project!r} that is another one by now: rename that, or "
            "set tracking.project to a new one"
        )
    return Run(run)
