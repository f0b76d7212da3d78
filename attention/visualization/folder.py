"""The folder that `visualize.py` writes: its own only, and nothing that another program put there.

index.html            the interactive page
visualization.json    what was run, which files there are, and the numbers of each head
measures.csv          the numbers alone, a row for each example, place and head
arrays/example-1.npz  the maps by place [n t s], and the tokens
pictures/example-1/   <place>.png and .svg
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention.errors import UserError
from attention.visualization.measures import Measures
from attention.visualization.results import Example, Shown

MANIFEST = "visualization.json"
FORMAT = "attention visualization 1"


def written_before(path: str | Path) -> list[str]:
    """Returns the files in a folder that an earlier call wrote; none of a new or empty folder.

    Raises:
        UserError: a file of that name, or a folder that holds other things.
    """
    folder = Path(path).expanduser()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out={path} is a file: choose a folder that is new or empty")
    if not folder.exists() or not any(folder.iterdir()):
        return []
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        names = [*manifest["files"]]
        places = [(folder / name).resolve() for name in names]
        own = manifest["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError):
        names, places, own = [], [], False
    if not own or not all(place.is_relative_to(folder.resolve()) for place in places):
        raise UserError(
            f"--out={path} holds files that visualize.py has not written: choose a folder that is "
            f"new or empty"
        )
    return names


def open_folder(path: str | Path, files: Sequence[str]) -> Path:
    """Makes the folder, or removes what an earlier call wrote, and says what will be there.

    So one that was interrupted is known for its own, too.

    Raises:
        UserError: as `written_before`.
    """
    folder = Path(path).expanduser()
    for name in written_before(path):
        (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    _write_json({"format": FORMAT, "status": "running", "files": [*files, MANIFEST]}, folder)
    return folder


def files_of(examples: Sequence[Example], *, each_head: bool) -> list[str]:
    """Returns the names of all files but the manifest, under the folder."""
    names = ["index.html", "measures.csv"]
    for example in examples:
        names.append(f"arrays/example-{example.number}.npz")
        for shown in example.maps:
            heads = len(shown.values) if each_head and len(shown.values) > 1 else 0
            stem = f"pictures/example-{example.number}/{shown.found.place.name}"
            stems = [stem, *(f"{stem}-head-{head + 1}" for head in range(heads))]
            names += [name + suffix for name in stems for suffix in (".png", ".svg")]
    return names


def write_arrays(example: Example, path: Path) -> None:
    """Writes the maps of an example by place, and its tokens: `tokens`, or `source_tokens` …."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {shown.found.place.name: shown.values for shown in example.maps}
    for name, tokens in example.sequences.items():
        arrays[name if name == "tokens" else f"{name}_tokens"] = np.array(tokens, np.str_)
    np.savez_compressed(path, **arrays)


def write_table(
    examples: Sequence[Example], means: Mapping[str, Sequence[Measures]], path: Path
) -> None:
    """Writes measures.csv; the rows over all examples have "all" for their number."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("example", "line", "place", "kind", "head", *Measures._fields))
        for number, line, shown, heads in _rows(examples, means):
            found = shown.found
            for name, numbers in zip(shown.names, heads, strict=True):
                values = ["" if math.isnan(x) else f"{x:.6g}" for x in numbers]
                head = name.removeprefix("head ")
                writer.writerow((number, line, found.place.name, found.kind, head, *values))


def _rows(
    examples: Sequence[Example], means: Mapping[str, Sequence[Measures]]
) -> Iterator[tuple[Any, Any, Shown, Sequence[Measures]]]:
    for example in examples:
        for shown in example.maps:
            yield example.number, example.line, shown, shown.heads
    for shown in examples[0].maps:
        yield "all", "", shown, means[shown.found.place.name]


def write_manifest(
    folder: Path,
    files: Sequence[str],
    examples: Sequence[Example],
    means: Mapping[str, Sequence[Measures]],
    about: Mapping[str, Any],
) -> None:
    """Writes visualization.json, last of all: then its status is "complete"."""
    manifest = {
        **{"format": FORMAT, "status": "complete"},
        **about,
        "examples": [
            {
                "example": example.number,
                "line": example.line,
                "answer": example.answer,
                "tokens": example.sequences,
                "maps": [_summary(shown, shown.heads) for shown in example.maps],
            }
            for example in examples
        ],
        "over_all_examples": [
            _summary(shown, means[shown.found.place.name]) for shown in examples[0].maps
        ],
        "files": [*files, MANIFEST],
    }
    _write_json(manifest, folder)


def _write_json(manifest: Mapping[str, Any], folder: Path) -> None:
    text = json.dumps(manifest, ensure_ascii=False, indent=1, allow_nan=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _summary(shown: Shown, heads: Sequence[Measures]) -> dict[str, Any]:
    found = shown.found
    numbers = [
        {name: None if math.isnan(value) else value for name, value in one._asdict().items()}
        for one in heads
    ]
    return {
        **{"place": found.place.name, "kind": found.kind, "variant": found.variant},
        **{"note": found.note, "heads": numbers},
    }
