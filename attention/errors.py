"""The exceptions that the commands turn into an exit status, and the hint for a wrong name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Wrong input by the user: flags, configs, files, names.

    The message is one line that says what is wrong, with its value, what is allowed, and which
    key, flag or file to change. The commands print it without a traceback and exit with status 2.
    """


class Failure(RuntimeError):
    """A run that cannot go on through no fault of the input's form, such as a diverged loss.

    The message is one line; the commands print it without a traceback and exit with status 1.
    """


class Interrupted(Exception):
    """SIGINT or SIGTERM stopped the work after it was saved; the commands exit with status 130."""


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Returns " (did you mean 'x'?)" for the nearest allowed name, or "" if none is near."""
    near = difflib.get_close_matches(str(name), [str(a) for a in allowed], n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""
