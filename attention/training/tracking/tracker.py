"""What every tracker offers, whatever its package calls it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Description(NamedTuple):
    """What a tracker is told when a run starts or goes on.

    Attributes:
      project: where the tracker files it.
      name: the name of the run directory.
      group: the name of the sweep that it belongs to.
      config: the resolved config, by dotted key.
      folder: the run directory, for a tracker that keeps files.
      id: what the tracker called the run that goes on; None: a new one.
    """

    project: str
    name: str
    group: str | None
    config: Mapping[str, Any]
    folder: Path
    id: str | None


class Tracker(Protocol):
    """One run in a tracker. Whatever a call raises, training goes on without it."""

    @property
    def id(self) -> str:
        """What the run is found by when it goes on."""
        ...

    def log(self, step: int, seconds: float, numbers: Mapping[str, float]) -> None:
        """Takes one row of metrics.jsonl, written `seconds` after 1970."""
        ...

    def end(self, status: str, step: int, results: Mapping[str, Any]) -> None:
        """Takes the status and the flat result ("result/eval/accuracy"), and sends what is left."""
        ...
