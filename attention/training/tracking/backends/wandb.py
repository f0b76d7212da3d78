"""Weights & Biases. `WANDB_MODE=offline` keeps all in the run directory, for `wandb sync`.

A step that was logged already is dropped by the server of a resumed run. Off-line each sitting is
a folder of its own with the same id.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from attention.training.tracking.tracker import Description

wandb: Any = import_module("wandb")  # not this file

_EXIT_CODES = {"failed": 1, "interrupted": 130}


class Run:
    """A run object of its own: several may be active in the threads of one process."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self.id: str = run.id

    def log(self, step: int, seconds: float, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def end(self, status: str, step: int, results: Mapping[str, Any]) -> None:
        self._run.summary.update({"status": status, **results})
        self._run.finish(exit_code=_EXIT_CODES.get(status, 0))


def start(description: Description) -> Run:
    run = wandb.init(
        project=description.project,
        name=description.name,
        group=description.group,
        id=description.id,
        resume="allow" if description.id else None,
        config=dict(description.config),
        allow_val_change=True,  # a run may go on with more steps
        dir=str(description.folder),
        reinit="create_new",
        # Runs in threads share a terminal: none of them may take it over.
        settings=wandb.Settings(console="off"),
    )
    return Run(run)
