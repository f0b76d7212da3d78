"""Splits that are read here and stored as ArrayRecord: written once, then opened by index.

A record is a few texts with the line they came from and the number of their file: the number and
not the path, since the same content may move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attention.data.dataset import Dataset, Example, Record, Split
from attention.data.preparation import SplitSummary, hash_parts, prepare, quiet_tfds

FORMAT_VERSION = "1"  # raise it when what is stored changes


class SplitSource(NamedTuple):
    """Where the records of one split come from.

    `records` yields them in order and adds what it reads and skips to the counts it is given.
    `content` is what they depend on: digests of files, and choices. `files` are the paths by their
    number.
    """

    records: Callable[[Counter], Iterable[Record]]
    content: tuple[str, ...]
    files: tuple[Path, ...]


def load_stored(
    name: str,
    splits: Mapping[str, SplitSource],
    *,
    text_keys: Sequence[str],
    version: str,
    finish: Callable[[Example], Example] = lambda example: example,
) -> Dataset:
    """Prepares splits where that is not done yet, and opens them.

    Args:
      name: of the data set.
      splits: where each split comes from.
      text_keys: the texts of a record; beside them stand the numbers "line" and "file".
      version: of the source's own choices.
      finish: from texts, line and path of the file to the example.

    Raises:
      UserError: whatever reading the records raises.
    """
    hashes = {
        split: hash_parts(FORMAT_VERSION, version, split, *source.content)
        for split, source in splits.items()
    }
    fingerprint = hash_parts(name, *hashes.values())
    write = partial(_write, splits=splits, text_keys=text_keys, hashes=hashes)
    prepared = prepare(name, fingerprint=fingerprint, write=write)
    opened = {}
    for split, source in splits.items():
        files = [str(path) for path in source.files]
        decode = partial(_decode, text_keys=text_keys, files=files, finish=finish)
        opened[split] = Split(prepared.records(split), decode, **prepared.splits[split]._asdict())
    return Dataset(name, opened)


def _write(
    folder: Path,
    *,
    splits: Mapping[str, SplitSource],
    text_keys: Sequence[str],
    hashes: Mapping[str, str],
) -> tuple[str, dict[str, SplitSummary]]:
    counts = {split: Counter() for split in splits}
    with quiet_tfds() as tfds:
        from attention.data.builder import write_examples

        features = {key: tfds.features.Text() for key in text_keys}
        features |= {key: tfds.features.Scalar(np.int64) for key in ("line", "file")}
        directory = write_examples(
            folder,
            features=features,
            splits={s: partial(source.records, counts[s]) for s, source in splits.items()},
        )
    return directory, {s: SplitSummary(hashes[s], dict(counts[s])) for s in splits}


def _decode(
    record: Record,
    index: int,
    *,
    text_keys: Sequence[str],
    files: Sequence[str],
    finish: Callable[[Example], Example],
) -> Example:
    example = {key: record[key].decode() for key in text_keys}
    return finish(example | {"line": int(record["line"]), "file": files[int(record["file"])]})
