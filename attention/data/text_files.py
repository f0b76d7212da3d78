"""Reading a user's text files: UTF-8, lines that end at "\\n" only.

A "\\r" before the "\\n" is dropped; U+2028, U+0085 and the like may stand inside a line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path

from attention.errors import UserError


def open_for_reading(path: str | Path) -> BufferedReader:
    """Opens a user's file as bytes, or raises a UserError that names it."""
    try:
        return Path(path).expanduser().open("rb")
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None


def decoded_lines(stream: Iterable[bytes | str], file: str) -> Iterator[tuple[int, str]]:
    """Yields number, from 1, and text of each line, without byte order mark and line end.

    Raises:
      UserError: naming file and line where the text is not UTF-8.
    """
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw if isinstance(raw, str) else raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{file}:{number}: expected UTF-8 text ({error.reason})") from None
        if number == 1:
            line = line.removeprefix("\ufeff")
        yield number, line.removesuffix("\n").removesuffix("\r")


def lines_of(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yields number, from 1, and text of each line of a file, as `decoded_lines` does."""
    with open_for_reading(path) as stream:
        yield from decoded_lines(stream, str(path))


def file_digest(path: str | Path) -> str:
    """Returns the sha256 hex digest of a file's content."""
    with open_for_reading(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
