"""Who runs which trial, and how each try ended: claims that a dead process cannot keep.

A claim is a lock on a file, which the system drops when its process ends, however it ends. Only
its holder writes the record beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

from attention.training.atomic import write_json

log = logging.getLogger(__name__)

_PATIENCE = 5  # a look at a lock holds it for a moment
_MOMENT = 0.01


@dataclasses.dataclass(frozen=True)
class Try:
    """One attempt at a trial.

    `status` is running, complete, pruned, interrupted or failed; `kind` says of a failure whether
    it is the `input` that is wrong, the training that `diverged`, a `crash`, or one of trials
    `together`, which says nothing of each alone.
    """

    status: str
    started: float  # seconds since 1970
    ended: float | None = None
    kind: str = ""
    error: str = ""
    metric: float | None = None
    metric_name: str = ""
    host: str = ""
    pid: int = 0
    runs_at_once: int = 1  # trials that shared the time from start to end, this one included

    @property
    def time(self) -> float:
        return self.started if self.ended is None else self.ended

    @property
    def seconds(self) -> float:
        """Its share of the seconds it took; 0 before it has ended, also by a kill."""
        return 0.0 if self.ended is None else (self.ended - self.started) / self.runs_at_once

    def to_record(self) -> dict[str, Any]:
        """Returns it as it is written down."""
        record = dataclasses.asdict(self)
        if self.runs_at_once == 1:
            # Earlier versions take a record with a field that they do not know for damaged.
            del record["runs_at_once"]
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Try:
        """Reads what this version knows; raises TypeError where the least is missing."""
        known = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: record[name] for name in known if name in record})


def new_try() -> Try:
    return Try("running", time.time(), host=socket.gethostname(), pid=os.getpid())


class Claim(Protocol):
    """A trial that this process, and no other, may run."""

    def end(self, outcome: Try) -> None:
        """Writes down how the try ended, and gives the claim back."""
        ...


class Ledger(Protocol):
    """The tries of all trials, by the trial's name.

    `far`: run directories may lie on other machines, so that what the ledger says is all there is.
    """

    far: bool

    def claim(self, name: str, *, wanted: Callable[[], bool]) -> Claim | None:
        """Begins a try, unless somebody else is at it.

        Args:
          wanted: asked once nobody else can begin: a try may have ended since the last look.
        """
        ...

    def held(self, name: str) -> bool:
        """Whether somebody is at a trial now."""
        ...

    def tries(self, name: str) -> list[Try]:
        """The tries so far; one that is `running` and not `held` ended with its process."""
        ...


class FileLedger:
    """Claims and records as files of one folder, for processes that share a file system."""

    far = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def claim(self, name: str, *, wanted: Callable[[], bool]) -> FileClaim | None:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / f"{name}.lock").open("a", encoding="utf-8")
        if _lock_patiently(file) and wanted():
            claim = FileClaim(file, self._record(name), [*self.tries(name), new_try()])
            claim.write()
            return claim
        file.close()
        return None

    def held(self, name: str) -> bool:
        with contextlib.suppress(FileNotFoundError), (self._folder / f"{name}.lock").open() as file:
            return not _lock(file, fcntl.LOCK_SH)
        return False

    def tries(self, name: str) -> list[Try]:
        try:
            records = json.loads(self._record(name).read_text("utf-8"))
            return [Try.from_record(each) for each in records]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError):  # a full disk, a foreign file: tries count from here on
            log.warning("%s is damaged and is passed over", self._record(name))
            return []

    def _record(self, name: str) -> Path:
        return self._folder / f"{name}.json"


class FileClaim:
    """A lock that is held until `end`, or until the process is gone."""

    def __init__(self, file: TextIO, record: Path, tries: list[Try]) -> None:
        self._file = file  # closing it gives the claim back
        self._record = record
        self._tries = tries

    def write(self) -> None:
        write_json(self._record, [each.to_record() for each in self._tries])

    def end(self, outcome: Try) -> None:
        self._tries[-1] = outcome
        self.write()
        self._file.close()


def _lock_patiently(file: Any) -> bool:
    for _ in range(_PATIENCE):
        if _lock(file, fcntl.LOCK_EX):
            return True
        time.sleep(_MOMENT)
    return False


def _lock(file: Any, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock of a file within the block, after waiting for it."""
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
