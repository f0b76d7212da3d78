"""Sends what is printed and logged while a trial runs to the trial's own file."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Appends stdout and stderr of this process, also those of C++ libraries, to a file."""
    kept = [os.dup(number) for number in (1, 2)]
    with _appending(path) as file:
        try:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


@contextlib.contextmanager
def lines_of_thread_to(path: Path, *, thread: str) -> Iterator[TextIO]:
    """Appends the log lines of one thread to a file, in place of stderr; yields the file."""
    root = logging.getLogger()
    others = list(root.handlers)
    with _appending(path) as file:
        handler = logging.StreamHandler(file)
        handler.setFormatter(others[0].formatter if others else None)
        handler.addFilter(lambda record: record.threadName == thread)

        def of_another(record: logging.LogRecord) -> bool:
            return record.threadName != thread

        for other in others:
            other.addFilter(of_another)
        root.addHandler(handler)
        try:
            yield file
        finally:
            root.removeHandler(handler)
            for other in others:
                other.removeFilter(of_another)


def _appending(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
