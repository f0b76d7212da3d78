"""What a sweep shows of itself on stderr: a live table, or plain lines where nobody watches."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from attention.sweeping.plan import Trial
from attention.sweeping.standing import Standing

_MOST_LINES = 12
_UP, _CLEAR = "\x1b[{}A", "\x1b[J"


class Seen(NamedTuple):
    """A trial, how it stands, and where it is: the last row of its metrics, if it is running."""

    trial: Trial
    standing: Standing
    row: Mapping[str, Any]


class Counts(NamedTuple):
    """How many trials are done (complete or pruned), running, failed for good, and to come."""

    done: int
    running: int
    failed: int
    left: int


def count(seen: Sequence[Seen], wanted: int) -> Counts:
    statuses = [(each.standing.status, each.standing.open) for each in seen]
    done = sum(status in ("complete", "pruned") for status, _ in statuses)
    running = sum(status == "running" for status, _ in statuses)
    failed = sum(status == "failed" and not again for status, again in statuses)
    return Counts(done, running, failed, max(0, wanted - done - running - failed))


def best(seen: Sequence[Seen]) -> Seen | None:
    """The complete trial whose metric on dev is highest, the first of equals."""
    scored = [
        each
        for each in seen
        if each.standing.status == "complete" and each.standing.metric is not None
    ]
    return max(scored, key=lambda each: each.standing.metric or 0.0, default=None)


def seconds_left(seen: Sequence[Seen], counts: Counts, workers: int) -> float | None:
    """From the mean time of the trials that are done; None before the first."""
    times = [
        each.standing.seconds
        for each in seen
        if each.standing.status in ("complete", "pruned") and each.standing.seconds
    ]
    if not times:
        return None
    # Those running are half through, on average.
    return sum(times) / len(times) * (counts.left + counts.running / 2) / max(workers, 1)


def summary(seen: Sequence[Seen], *, wanted: int, workers: int) -> str:
    """One line: done, running, failed, best, time left."""
    counts = count(seen, wanted)
    parts = [f"{counts.done} of {wanted} done", f"{counts.running} running"]
    parts += [f"{counts.failed} failed"] if counts.failed else []
    if top := best(seen):
        parts.append(f"best {_metric(top.standing)} (trial {top.trial.number})")
    left = seconds_left(seen, counts, workers)
    if left is not None and counts.left + counts.running:
        parts.append(f"about {duration(left)} left")
    return ", ".join(parts)


def line(each: Seen) -> str:
    """One line about one trial."""
    standing = each.standing
    values = " ".join(f"{key}={value}" for key, value in each.trial.point.items())
    what = standing.status
    if standing.status == "running":
        numbers = [f"step {each.row['step']}"] if each.row else ["starting"]
        names = [name for name in each.row if name.startswith("eval/")][:1] or ["train/loss"]
        numbers += [f"{n} {each.row[n]:.4g}" for n in names if _is_number(each.row.get(n))]
        what = "  ".join(["running", *numbers])
    elif standing.metric is not None:
        what = f"{standing.status}: {_metric(standing)}"
    elif standing.error:
        again = ", to be tried again" if standing.open else ""
        what = f"{standing.status}{again}: {standing.error}"
    return f"trial {each.trial.number}  {each.trial.name}  {values}  {what}"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _metric(standing: Standing) -> str:
    return f"{standing.metric_name} {standing.metric:.4f}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


class Table:
    """Shows a sweep again and again.

    On a terminal it redraws a summary with the trials that are running and that have failed;
    elsewhere it writes a line for each trial that begins or ends, and the summary when one ends.
    """

    def __init__(self, stream: TextIO | None = None, *, terminal: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty() if terminal is None else terminal
        self._lines = 0
        self._known: dict[str, str] | None = None

    def show(self, seen: Sequence[Seen], *, wanted: int, workers: int) -> None:
        text = summary(seen, wanted=wanted, workers=workers)
        if self._terminal:
            self._redraw([text, *self._running_and_failed(seen)])
            return
        first = self._known is None
        known = self._known or {}
        self._known = {each.trial.name: each.standing.status for each in seen}
        news = [
            each
            for each in seen
            if each.standing.status not in (known.get(each.trial.name, "planned"), "planned")
        ]
        lines = [] if first else [line(each) for each in news]
        if first or any(each.standing.status != "running" for each in news):
            lines.append(text)
        for each in lines:
            print(f"{time.strftime('%H:%M:%S')} {each}", file=self._stream, flush=True)

    def _running_and_failed(self, seen: Sequence[Seen]) -> list[str]:
        shown = [each for each in seen if each.standing.status == "running"]
        shown += [each for each in seen if each.standing.status == "failed"]
        return [f"  {line(each)}" for each in shown[:_MOST_LINES]]

    def _redraw(self, lines: list[str]) -> None:
        width = shutil.get_terminal_size().columns - 1
        back = _UP.format(self._lines) if self._lines else ""
        self._stream.write(f"{back}\r{_CLEAR}" + "".join(f"{each[:width]}\n" for each in lines))
        self._stream.flush()
        self._lines = len(lines)
