"""Tagged sentences: how they are stored, and loaded from CoNLL-U files.

An example is `{"words": list[str], "upos": list[str], "xpos": list[str], "line": int, "file":
str}` with one tag a word, "_" where there is none; `line` counts from 1.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from attention.data.conllu import Sentence, read_conllu
from attention.data.dataset import Dataset, Example, Record
from attention.data.preparation import describe_counts
from attention.data.stored import SplitSource, load_stored
from attention.data.text_files import file_digest
from attention.data.tokenizers.labels import NO_LABEL
from attention.errors import UserError

LIST_KEYS = ("words", "upos", "xpos")

logger = logging.getLogger(__name__)


class ConlluFiles(NamedTuple):
    """The files of one split, and which sentences of each belong to it (by index from 0)."""

    paths: tuple[Path, ...]
    keep: Callable[[int], bool] = lambda index: True


def load_conllu(name: str, splits: Mapping[str, ConlluFiles], *, version: str) -> Dataset:
    """Prepares CoNLL-U files where that is not done yet, and opens them.

    Args:
      name: of the data set.
      splits: the files of each split.
      version: of the source's own choices (which sentences a split keeps).

    Raises:
      UserError: naming file and line of what is wrong; also for a split without a sentence.
    """
    sources = {
        split: SplitSource(
            partial(_records, files), tuple(map(file_digest, files.paths)), files.paths
        )
        for split, files in splits.items()
    }
    return load_stored(name, sources, text_keys=LIST_KEYS, version=version, finish=split_lists)


def read_examples(source: str | Path | IO, *, name: str | None = None) -> list[Example]:
    """Reads the examples of one CoNLL-U file or stream, without preparing it; logs the counts.

    Raises:
      UserError: naming file and line; also where there is no sentence at all.
    """
    counts: Counter = Counter()
    examples = []
    for sentence in read_conllu(source, name=name):
        if _has_words(sentence, counts):
            _count_sentence(sentence, counts)
            examples.append(_example(sentence))
    if not examples:
        raise UserError(f"{name or source}: holds no sentence")
    logger.info("read %s: %s", examples[0]["file"], describe_counts(counts))
    return examples


def universal_dependencies_decoder(features) -> Callable[[Record, int], Example]:
    """Returns the decoder of the TFDS catalogue's `universal_dependencies` records.

    They hold no line number: `line` is the number of the sentence, from 1. They do hold the rows
    of ranges and empty nodes, which are no words: those, and only those, have no head.
    """
    names = features["upos"].feature.names

    def decode(record: Record, index: int) -> Example:
        words = [i for i, head in enumerate(record["head"]) if head != b"None"]
        xpos = [record["xpos"][i].decode() for i in words]
        return {
            "words": [record["tokens"][i].decode() for i in words],
            "upos": [names[record["upos"][i]] for i in words],
            "xpos": [NO_LABEL if tag == "None" else tag for tag in xpos],
            "line": index + 1,
            "file": record["idx"].decode(),
        }

    return decode


def count_tagged(example: Example) -> dict[str, int]:
    """Returns what one example adds to the counts of its split."""
    return {
        "sentences": 1,
        "words": len(example["words"]),
        "unlabelled_words": example["upos"].count(NO_LABEL),
    }


def _example(sentence: Sentence) -> Example:
    return {key: getattr(sentence, key) for key in (*LIST_KEYS, "line", "file")}


def _records(files: ConlluFiles, counts: Counter) -> Iterator[Record]:
    for number, path in enumerate(files.paths):
        sentences = (s for s in read_conllu(path) if _has_words(s, counts))
        for sentence in (s for i, s in enumerate(sentences) if files.keep(i)):
            _count_sentence(sentence, counts)
            # A list of strings takes five times as long to read back as one string, and no column
            # of the format can hold a tab.
            yield {key: "\t".join(getattr(sentence, key)) for key in LIST_KEYS} | {
                "line": sentence.line,
                "file": number,
            }
    if not counts["sentences"]:
        raise UserError(f"{', '.join(map(str, files.paths))}: holds no sentence")


def _has_words(sentence: Sentence, counts: Counter) -> bool:
    if not sentence.words:
        counts["skipped_blocks_without_words"] += 1
    return bool(sentence.words)


def _count_sentence(sentence: Sentence, counts: Counter) -> None:
    counts.update(count_tagged(_example(sentence)))
    counts["skipped_ranges"] += sentence.num_ranges
    counts["skipped_empty_nodes"] += sentence.num_empty_nodes


def split_lists(example: Example) -> Example:
    """Returns an example whose lists were stored with a tab between their words."""
    return example | {key: example[key].split("\t") for key in LIST_KEYS}
