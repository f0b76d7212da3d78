"""Tells whether a folder is still exactly what was written into it.

Orbax makes a checkpoint visible by renaming its folder, but reads an empty or half-copied folder
without an error. A sealed folder lists its own files with their sizes and CRC-32 sums, so that a
file that is missing, cut short or changed is found before anything is read from it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from pathlib import Path

from attention.training.atomic import write_text

SEAL_NAME = "seal.json"
_CHUNK_BYTES = 1 << 20


def seal(folder: Path, *, changing: Collection[str] = ()) -> None:
    """Writes the list of all files below `folder` into it.

    Args:
      folder: all of whose files are written.
      changing: names, relative to `folder`, of files that may still change and are not listed.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    files = {
        name: [path.stat().st_size, _crc32(path)]
        for name, path in sorted(paths.items())
        if path.is_file() and name not in (SEAL_NAME, *changing)
    }
    write_text(folder / SEAL_NAME, json.dumps({"files": files}, indent=0))


def fault(folder: Path, *, content: bool) -> str | None:
    """Returns what is wrong with a sealed folder, or None if it is whole.

    Args:
      folder: where `seal` was called.
      content: also reads every file and compares its sum; False compares sizes only, which finds
        whatever a killed writer or a full disk leaves behind.
    """
    if not folder.is_dir():
        return "it is not a folder"
    try:
        files = json.loads((folder / SEAL_NAME).read_text("utf-8"))["files"]
        expected = {str(name): (int(size), int(crc)) for name, (size, crc) in files.items()}
    except FileNotFoundError:
        return f"{SEAL_NAME} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{SEAL_NAME} cannot be read"
    for name, (size, crc) in expected.items():
        try:
            found = (folder / name).stat().st_size
            if found != size:
                return f"{name} has {found} bytes instead of {size}"
            if content and _crc32(folder / name) != crc:
                return f"the content of {name} has changed"
        except OSError:
            return f"{name} is missing"
    return None


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value
