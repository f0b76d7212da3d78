"""Labelled texts: how they are read from TSV and JSONL files, stored, and split.

An example is `{"text": str, "label": str, "line": int, "file": str}`; the label is "_" where there
is none, and `line` counts from 1.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from attention.data.dataset import Dataset, Example, Record
from attention.data.preparation import describe_counts
from attention.data.splitting import SPLITS, split_of
from attention.data.stored import SplitSource, load_stored
from attention.data.text_files import file_digest, lines_of
from attention.data.tokenizers.labels import NO_LABEL
from attention.errors import UserError

TEXT_KEYS = ("text", "label")
JSONL_SUFFIXES = (".jsonl", ".ndjson")
# Part of the hash of a split that has them; those without are what they were before they were kept.
WITH_BLANK_LINES = "with blank lines"

logger = logging.getLogger(__name__)


class Row(NamedTuple):
    """A text with its label, "_" for none, and its line, from 1."""

    text: str
    label: str
    line: int


def load_labelled_files(name: str, paths: Mapping[str, Path], *, version: str) -> Dataset:
    """Opens TSV or JSONL files, one a split, prepared where that is not done yet.

    The splits are kept as they are given. Repeated texts are counted, in the split and in the
    training split; only a training text that is blank, or a blank line there, is left out, and
    counted.

    Raises:
      UserError: naming file and line; also for a file without an example, or "train" without a
        label.
    """
    in_train: set[bytes] = set()
    sources = {}
    for split, path in paths.items():
        records = partial(_records, path, split, in_train)
        content = (_format(path), file_digest(path))
        if split != "train" and _has_blank_lines(path):
            content += (WITH_BLANK_LINES,)
        sources[split] = SplitSource(records, content, (path,))
    return load_stored(name, sources, text_keys=TEXT_KEYS, version=version)


def load_unsplit(
    name: str, path: Path, read: Callable[[Path], Iterator[Row]], *, version: str
) -> Dataset:
    """Opens data that come without splits: duplicates are dropped, a hash of the text splits.

    Of texts that are equal the first is kept, with its label; the others are counted, and again
    where their label differs from the one that is kept.

    Args:
      read: yields all rows of the file.
    """
    content = (name, file_digest(path))
    sources = {
        split: SplitSource(partial(_part, path, split, read), content, (path,)) for split in SPLITS
    }
    return load_stored(name, sources, text_keys=TEXT_KEYS, version=version)


def read_examples(path: str | Path) -> list[Example]:
    """Reads the examples of one TSV or JSONL file, without preparing it; logs the counts.

    Each line is one, so that answers stand beside the lines.

    Raises:
      UserError: naming file and line; also where there is no example at all.
    """
    counts: Counter = Counter()
    examples = []
    for row in read_labelled(Path(path), counts, keep_blank_lines=True):
        examples.append({**row._asdict(), "file": str(path)})
        counts.update(count_labelled(examples[-1]))
    _require_example(path, counts)
    logger.info("read %s: %s", path, describe_counts(counts))
    return examples


def read_labelled(path: Path, counts: Counter, *, keep_blank_lines: bool) -> Iterator[Row]:
    """Yields the rows of a file, in order; blank lines are counted.

    A file named *.jsonl holds one JSON object a line, with "text" and maybe "label". Any other
    holds `text<TAB>label` lines without a header, where the last tab is the one that separates; a
    file without any tab holds texts without labels, one a line, and there a blank one is a text.

    Args:
      keep_blank_lines: they are blank texts without a label; else they are left out.

    Raises:
      UserError: naming file and line and what was expected there.
    """
    parse = _parser(path)
    for number, line in lines_of(path):
        if not line.strip() and parse is not _parse_plain:
            counts["blank_lines" if keep_blank_lines else "skipped_blank_lines"] += 1
            if keep_blank_lines:
                yield Row("", NO_LABEL, number)
            continue
        try:
            text, label = parse(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        if number == 1 and label.lower() == "label" and parse is not _parse_json:
            raise UserError(f"{path}:1: looks like a header: expected the first text and its label")
        yield Row(text, label or NO_LABEL, number)


def catalogue_decoder(builder_name: str, *, text_key: str) -> Callable:
    """Returns what makes the decoder of a TFDS data set with a text and a class label.

    The label is the number of the class, as in files that people pass on ("0" negative, "1"
    positive), so that a model of one data set can be scored on another; -1 stands for none. `line`
    is the number of the record, from 1.
    """

    def make_decode(features) -> Callable[[Record, int], Example]:
        def decode(record: Record, index: int) -> Example:
            label = int(record["label"])
            return {
                "text": record[text_key].decode(),
                "label": str(label) if label >= 0 else NO_LABEL,
                "line": index + 1,
                "file": builder_name,
            }

        return decode

    return make_decode


def count_labelled(example: Mapping) -> dict[str, int]:
    """Returns what one example adds to the counts of its split."""
    return {"examples": 1, "unlabelled_examples": int(example["label"] == NO_LABEL)}


def _format(path: Path) -> str:
    if path.suffix.lower() == ".json":
        raise UserError(f"{path}: JSON is read one object a line, from a file named *.jsonl")
    return "jsonl" if path.suffix.lower() in JSONL_SUFFIXES else "tsv"


def _parser(path: Path) -> Callable[[str], tuple[str, str]]:
    return _parse_json if _format(path) == "jsonl" else _parse_tsv(path)


def _has_blank_lines(path: Path) -> bool:
    """Whether lines of a file that holds more than plain texts hold nothing."""
    blank = any(not line.strip() for _, line in lines_of(path))
    return blank and _parser(path) is not _parse_plain


def _parse_tsv(path: Path) -> Callable[[str], tuple[str, str]]:
    if not any("\t" in line for _, line in lines_of(path)):
        return _parse_plain

    def parse(line: str) -> tuple[str, str]:
        text, tab, label = line.rpartition("\t")
        if not tab:
            raise ValueError("expected text<TAB>label, got no tab; spaces do not separate")
        return text, label.strip()

    return parse


def _parse_plain(line: str) -> tuple[str, str]:
    return line, ""


def _parse_json(line: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a JSON object ({error})") from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise ValueError('expected a JSON object with "text", a string, and "label"')
    label = row.get("label")
    if isinstance(label, int):
        label = json.dumps(label)
    if not isinstance(label, str | None):
        raise ValueError(f'expected "label" to be a string or a whole number, got {label!r}')
    try:
        (row["text"] + (label or "")).encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair is no text") from None
    return row["text"], (label or "").strip()


def _records(path: Path, split: str, in_train: set[bytes], counts: Counter) -> Iterator[Record]:
    seen: set[bytes] = set()
    for row in read_labelled(path, counts, keep_blank_lines=split != "train"):
        if split == "train" and not row.text.strip():
            counts["skipped_blank_texts"] += 1
            continue
        key = hashlib.blake2b(row.text.encode(), digest_size=16).digest()
        counts["repeated_texts"] += key in seen
        counts["texts_also_in_train"] += split != "train" and key in in_train
        if row.text:  # blank lines repeat nothing
            seen.add(key)
        counts.update(count_labelled(row._asdict()))
        yield {**row._asdict(), "file": 0}
    _require_example(path, counts)
    if split == "train":
        in_train |= seen
        if counts["unlabelled_examples"] == counts["examples"]:
            raise UserError(f"{path}: holds no label to train on: expected text<TAB>label")


def _require_example(path: str | Path, counts: Counter) -> None:
    if counts["examples"] == counts["blank_lines"]:
        raise UserError(f"{path}: holds no example")


def _part(
    path: Path, split: str, read: Callable[[Path], Iterator[Row]], counts: Counter
) -> Iterator[Record]:
    """The records of one split of data that come without."""
    kept: dict[str, str] = {}
    for row in read(path):
        if split_of(row.text) != split:
            continue
        label = kept.setdefault(row.text, row.label)
        if len(kept) == counts["examples"]:  # no new text
            counts["skipped_duplicates"] += 1
            counts["skipped_duplicates_with_another_label"] += label != row.label
            continue
        counts.update(count_labelled(row._asdict()))
        yield {**row._asdict(), "file": 0}
    if not counts["examples"]:
        raise UserError(f"{path}: holds no example for the {split} split")
