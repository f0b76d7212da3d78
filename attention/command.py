"""The one entry point of all commands: flags, log lines, and what an exit status means.

    def main(arguments):
        from attention.training.loop import train       # JAX is imported once the flags are right
        config = load_config(arguments.config, arguments.overrides)
        ...

    if __name__ == "__main__":
        command.run(main, parser)

Exit status: 0 done; 2 wrong input by the user (one line on stderr); 130 interrupted; 1 otherwise.
"""

from __future__ import annotations

from attention import python_version  # noqa: F401  isort: skip  (first: it checks Python)

import argparse
import errno
import io
import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn, TextIO

try:
    import absl.logging
except ModuleNotFoundError:
    sys.exit(
        f"error: {sys.executable} lacks the packages of requirements.txt: "
        "run `make demo` once, then `source .venv/bin/activate`"
    )

from attention.errors import Failure, Interrupted, UserError
from attention.flags import parse

# Errors of writing that name no file: a full disk, a quota, a limit on the size of files.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Main = Callable[[argparse.Namespace], "int | None"]

# Libraries whose progress reports are not the user's business; their warnings are.
_QUIET = ("orbax", "jax", "flax", "grain", "tensorflow_datasets", "etils")


def run(main: Main, parser: argparse.ArgumentParser) -> NoReturn:
    """Parses the command line, calls `main`, and exits with the status of the outcome.

    Args:
      main: Takes the parsed flags; returns None or an exit status. Where the parser has a
        `--config` flag, `arguments.overrides` holds the (dotted key, text) pairs of all
        `--config.KEY=VALUE`, in order.
      parser: The command's own flags; `--flagfile` is added.
    """
    sys.exit(execute(main, parser, sys.argv[1:]))


def execute(main: Main, parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Does what `run` does for the given command line, and returns the exit status."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA's own log lines, below errors
    set_up_logging()
    # Until there is something to save, SIGTERM ends a command as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _speak_utf8()
        status = main(parse(parser, words)) or 0
        sys.stdout.flush()
        return status
    except UserError as error:
        return _end(2, error)
    except Failure as error:
        return _end(1, error)
    except Interrupted as error:
        return _end(130, error)
    except KeyboardInterrupt:
        return _end(130, "interrupted")
    except BrokenPipeError:
        if not _stdout_is_closed():
            traceback.print_exc()
        return 1
    except OSError as error:
        if error.filename is None and error.errno not in _NO_ROOM:
            traceback.print_exc()
            return 1
        where = f": {error.filename}" if error.filename else ""
        return _end(1, f"{error.strerror}{where}")
    except Exception:
        traceback.print_exc()
        return 1


def _speak_utf8() -> None:
    """Text goes in and out as UTF-8, whatever the locale says; lines end as in files."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")


def set_up_logging() -> None:
    """Sends log lines of level INFO and above to stderr, as "12:34:56 message"."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    if not any(isinstance(handler, _StderrHandler) for handler in root.handlers):
        handler = _StderrHandler()
        handler.setFormatter(_Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
        root.addHandler(handler)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    absl.logging.set_verbosity(absl.logging.WARNING)  # its logger must be made by itself


class _StderrHandler(logging.StreamHandler):
    """Writes to what `sys.stderr` is at the time, which progress bars and tests replace."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr


class _Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        if record.levelno >= logging.WARNING:
            record.message = f"{record.levelname.lower()}: {record.message}"
        return super().formatMessage(record)


def _end(status: int, reason: object) -> int:
    label = "error: " if status in (1, 2) else ""
    line = " ".join(str(reason).splitlines())
    if line:
        print(f"{label}{line}", file=sys.stderr)
    return status


def _stdout_is_closed() -> bool:
    """Returns whether the reader of stdout is gone, as in `predict.py | head`; then closes it."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file
        return False
    poll = select.poll()
    poll.register(descriptor, 0)  # errors are reported unasked
    if not poll.poll(0):
        return False
    # Else the interpreter flushes once more at exit, and complains.
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return True
