"""A run as its tracker sees it: each row once, and never an end of training for its sake."""

from __future__ import annotations

import contextlib
import logging
import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attention.training.atomic import write_json
from attention.training.tracking.tracker import Tracker

logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where a row stands in metrics.jsonl: it is the `number`th of its step, from 1."""

    step: int
    number: int


START = Place(0, 0)


class Tracked:
    """What the log of a run talks to; without a tracker nothing happens.

    tracking.json keeps what the tracker calls the run, and the last row that it got: as of the end
    of the last sitting, or, while `open`, of its start.

    Args:
      tracker: where the rows go.
      file: tracking.json.
      identity: what stays in it.
      sent: the last row that the tracker has. A run that goes on writes some rows again.
    """

    def __init__(
        self,
        tracker: Tracker | None = None,
        *,
        file: Path | None = None,
        identity: Mapping[str, Any] | None = None,
        sent: Place = START,
    ) -> None:
        self._tracker = tracker
        self._file = file
        self._identity = {**(identity or {}), "id": tracker.id if tracker else None}
        self._sent = sent
        self._last = START  # row of metrics.jsonl, sent or not
        if tracker is not None:
            self._note(is_open=True)

    def catch_up(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Takes the rows that metrics.jsonl has before a run goes on: some may never have come."""
        for row in rows:
            values = {name: value for name, value in row.items() if name not in ("step", "time")}
            self.log(row["step"], row["time"], values)

    def log(self, step: int, seconds: float, values: Mapping[str, Any]) -> None:
        """Sends a row of metrics.jsonl unless the tracker has it."""
        self._last = after(self._last, step)
        if self._last <= self._sent:
            return
        finite = dict(_finite(values))
        if self._try(lambda tracker: tracker.log(step, seconds, finite)):
            self._sent = self._last

    def end(self, result: Mapping[str, Any]) -> None:
        """Sends how the run ended: the content of result.json."""
        status = str(result["status"])
        flat = dict(_flat(result, "result"))
        if self._try(lambda tracker: tracker.end(status, result["step"], flat)):
            self._stop()

    def close(self) -> None:
        """Ends what no result has ended: the run was broken off."""
        self.end({"status": "interrupted", "step": self._last.step})

    def _try(self, tell: Callable[[Tracker], None]) -> bool:
        """Returns whether the tracker took it; the first time that it does not is the last."""
        if self._tracker is None:
            return False
        try:
            tell(self._tracker)
        except Exception as error:
            logger.warning(
                "tracking.backend=%s has failed and gets nothing more until the run goes on; "
                "training and its files are not touched: %s: %s",
                self._identity.get("backend"), type(error).__name__, " ".join(str(error).split()),
            )  # fmt: skip
            self._stop()
            return False
        return True

    def _stop(self) -> None:
        self._tracker = None
        self._note(is_open=False)

    def _note(self, *, is_open: bool) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk must not hide what went wrong first
                write_json(self._file, {**self._identity, "sent": self._sent, "open": is_open})


def after(last: Place, step: int) -> Place:
    """The place of the row of a step that follows another row."""
    return Place(step, last.number + 1 if step == last.step else 1)


def end_of(rows: Iterable[Mapping[str, Any]]) -> Place:
    """The place of the last of some rows."""
    last = START
    for row in rows:
        last = after(last, row["step"])
    return last


def _finite(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        value = value.item() if hasattr(value, "item") and value.ndim == 0 else value
        if isinstance(value, numbers.Real) and math.isfinite(value):
            yield name, float(value)


def _flat(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Names and values of nested dicts, without what is None."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}/{name}")
        elif value is not None:
            yield f"{prefix}/{name}", value
