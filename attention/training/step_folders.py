"""The folders of a run's checkpoints: which steps there are, and which of them are damaged."""

from __future__ import annotations

import re
from pathlib import Path

from attention.training.seal import fault

_STEP_NAME = re.compile(r"0|[1-9][0-9]*")


def is_step_name(name: str) -> bool:
    """Whether a folder of this name holds a checkpoint; the other names are none of ours."""
    return _STEP_NAME.fullmatch(name) is not None


class StepFolders:
    """The entries of `directory` that are named by a step; it may not exist yet."""

    def __init__(self, directory: Path):
        self.directory = directory

    def path(self, step: int) -> Path:
        return self.directory / str(step)

    def all(self) -> list[int]:
        """Returns the steps there are, damaged or not, in numeric order."""
        if not self.directory.is_dir():
            return []
        names = [entry.name for entry in self.directory.iterdir()]
        return sorted(int(name) for name in names if is_step_name(name))

    def whole(self) -> list[int]:
        """Returns the steps whose files are all there in their full size, in numeric order."""
        return [step for step in self.all() if self.fault(step, content=False) is None]

    def fault(self, step: int, *, content: bool) -> str | None:
        """Returns what is wrong with a checkpoint, or None; `content` reads all of it."""
        reason = fault(self.path(step), content=content)
        return None if reason is None else f"checkpoint {self.path(step)} is damaged ({reason})"

    def move_aside(self, step: int) -> Path:
        """Renames a checkpoint so that its step is free again; returns the new path."""
        aside = self.directory / f"{step}.broken"
        number = 2
        while aside.exists():
            aside = self.directory / f"{step}.broken-{number}"
            number += 1
        self.path(step).rename(aside)
        return aside
