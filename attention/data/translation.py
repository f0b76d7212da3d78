"""Pairs of sentences: read from two parallel files, stored, and split.

An example is `{"source": str, "target": str, "line": int, "file": str}`; `line` counts from 1, and
`file` is that of the source side.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from attention.data.dataset import Dataset, Direction, Example, Record
from attention.data.preparation import describe_counts
from attention.data.splitting import SPLITS, split_of
from attention.data.stored import SplitSource, load_stored
from attention.data.text_files import file_digest, lines_of
from attention.errors import UserError

TEXT_KEYS = ("source", "target")
SKIPPED_BLANK = "skipped_pairs_with_a_blank_side"

logger = logging.getLogger(__name__)


class Translations(NamedTuple):
    """One text in each language, its line from 1, and the count it goes to if it is left out."""

    texts: Mapping[str, str]
    line: int
    skipped: str | None = None


def load_parallel_files(
    name: str, paths: Mapping[str, tuple[Path, Path]], *, version: str
) -> Dataset:
    """Opens two files a split, whose lines belong together, prepared where that is not done yet.

    Training pairs with a blank side are left out and counted; in other splits every line is kept.

    Raises:
      UserError: naming the two files where their numbers of lines differ, a file and a line that
        is no UTF-8, or a split without a pair.
    """
    sources = {
        split: SplitSource(
            partial(_records, pair, split == "train"), tuple(map(file_digest, pair)), pair[:1]
        )
        for split, pair in paths.items()
    }
    return load_stored(name, sources, text_keys=TEXT_KEYS, version=version)


def load_unsplit(
    name: str,
    path: Path,
    read: Callable[[Path], Iterator[Translations]],
    *,
    languages: Sequence[str],
    options: Mapping[str, Any],
    version: str,
) -> Dataset:
    """Opens data that come without splits: duplicates are dropped, a hash of the text splits.

    A pair is a duplicate if one before it, in the whole file, has the same text in any language.
    The split is by the text in the first of `languages`, and so the same in all directions.

    Args:
      read: yields all rows of the file.
      languages: their first two are the direction where the options choose none.
      options: "source_language" and "target_language".
    """
    direction = choose_direction(name, languages, default=languages[:2], options=options)
    content = (file_digest(path), *direction)
    sources = {
        split: SplitSource(
            partial(_part, path, split, read, languages, direction), content, (path,)
        )
        for split in SPLITS
    }
    stored = load_stored(name, sources, text_keys=TEXT_KEYS, version=version)
    return dataclasses.replace(stored, direction=direction)


def read_examples(source: str | Path, target: str | Path | None = None) -> list[Example]:
    """Reads a file of sources and one of references, without preparing them; logs the counts.

    Every line is an example, blank ones included. Without references the targets are blank.

    Raises:
      UserError: where the numbers of lines differ, or there is none.
    """
    counts: Counter = Counter()
    examples = []
    for line, first, second in _pairs(Path(source), None if target is None else Path(target)):
        example = {"source": first, "target": second, "line": line, "file": str(source)}
        counts.update(count_pair(example) if target is not None else {"sources": 1})
        examples.append(example)
    if not examples:
        raise UserError(f"{source}: holds no line")
    logger.info("read %s: %s", source, describe_counts(counts))
    return examples


def choose_direction(
    name: str,
    languages: Sequence[str],
    *,
    default: Sequence[str] | None,
    options: Mapping[str, Any],
) -> Direction:
    """Returns the direction that the options choose, or the default.

    Args:
      name: of the data set, for messages.
      languages: those there are.
      default: the direction of the data set itself, if it has one.
      options: "source_language" and "target_language"; None, or absent, where not chosen. Of two
        languages the other follows from one.

    Raises:
      UserError: for a language that the data set does not have, or a direction left open.
    """
    chosen = {key: options.get(f"{key}_language") for key in TEXT_KEYS}
    for key, language in chosen.items():
        if language is not None and language not in languages:
            raise UserError(
                f"data.{key}_language='{language}': data set '{name}' has {', '.join(languages)}"
            )
    source, target = chosen["source"], chosen["target"]
    if source is None and target is None and default:
        return Direction(*default)
    if len(languages) == 2:
        source = source or _other(languages, target)
        target = target or _other(languages, source)
    if source is None or target is None:
        raise UserError(
            f"data set '{name}' has {', '.join(languages)}: set data.source_language and "
            "data.target_language"
        )
    if source == target:
        raise UserError(f"data.source_language and data.target_language are both '{source}'")
    return Direction(source, target)


def has_blank_side(example: Mapping) -> bool:
    """Whether there is nothing to learn from a pair."""
    return not (example["source"].strip() and example["target"].strip())


def count_pair(example: Mapping) -> dict[str, int]:
    """Returns what one example adds to the counts of its split."""
    blank = {f"blank_{key}s": int(not example[key].strip()) for key in TEXT_KEYS}
    return {"pairs": 1, **blank}


def _other(languages: Sequence[str], language: str | None) -> str | None:
    return next((each for each in languages if language is not None and each != language), None)


def _records(pair: tuple[Path, Path], training: bool, counts: Counter) -> Iterator[Record]:
    for line, source, target in _pairs(*pair):
        record = {"source": source, "target": target, "line": line, "file": 0}
        if training and has_blank_side(record):
            counts[SKIPPED_BLANK] += 1
            continue
        counts.update(count_pair(record))
        yield record
    if not counts["pairs"]:
        raise UserError(f"{pair[0]} and {pair[1]}: hold no pair of lines")


def _pairs(source: Path, target: Path | None) -> Iterator[tuple[int, str, str]]:
    """Yields the lines of two files that belong together, "" for those of no file."""
    if target is None:
        yield from ((number, text, "") for number, text in lines_of(source))
        return
    num_sources = num_targets = 0
    for one, other in zip_longest(lines_of(source), lines_of(target)):
        num_sources += one is not None
        num_targets += other is not None
        if one and other:
            yield one[0], one[1], other[1]
    if num_sources != num_targets:
        raise UserError(
            f"{source} has {num_sources:,} lines and {target} has {num_targets:,}: line i of one "
            "must be the translation of line i of the other"
        )


def _part(
    path: Path,
    split: str,
    read: Callable[[Path], Iterator[Translations]],
    languages: Sequence[str],
    direction: Direction,
    counts: Counter,
) -> Iterator[Record]:
    """The records of one split of data that come without."""
    seen: set[tuple[str, str]] = set()
    for row in read(path):
        own = {(language, row.texts[language]) for language in languages}
        skipped = row.skipped or ("skipped_duplicates" if own & seen else None)
        if row.skipped is None:
            seen |= own
        if split_of(row.texts[languages[0]]) != split:
            continue
        if skipped:
            counts[skipped] += 1
            continue
        texts = {key: row.texts[getattr(direction, key)] for key in TEXT_KEYS}
        counts.update(count_pair(texts))
        yield {**texts, "line": row.line, "file": 0}
    if not counts["pairs"]:
        raise UserError(f"{path}: holds no pair for the {split} split")
