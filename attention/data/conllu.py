"""CoNLL-U: one parser for training files, evaluation files and standard input, and the writer.

The format is https://universaldependencies.org/format.html: ten tab-separated columns a word, a
blank line after each sentence. Lines end at "\\n" only (a "\\r" before it is dropped), so that
U+2028, U+0085 and the like may stand inside a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from attention.data.text_files import decoded_lines, open_for_reading
from attention.errors import UserError

NUM_COLUMNS = 10
FORM = 1
TAG_COLUMNS = {"upos": 3, "xpos": 4}

_WORD_ID = re.compile(r"[0-9]{1,9}", re.ASCII)
_RANGE_ID = re.compile(r"([0-9]{1,10})-([0-9]{1,10})", re.ASCII)
_EMPTY_NODE_ID = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}", re.ASCII)


class Sentence(NamedTuple):
    """One sentence: its words with their tags, and every line as it stood in the file.

    `line` is the number, from 1, of the sentence's first row. `lines` holds comments, ranges, empty
    nodes and words verbatim, without line ends; `word_lines[i]` is where word i stands in it.
    """

    words: list[str]
    upos: list[str]
    xpos: list[str]
    file: str
    line: int
    lines: list[str]
    word_lines: list[int]
    num_ranges: int
    num_empty_nodes: int


def read_conllu(source: str | Path | Iterable, *, name: str | None = None) -> Iterator[Sentence]:
    """Yields the sentences of a path or of an open text or binary stream, in order.

    A sentence without a word (comments or empty nodes only) is yielded too, so that what is read
    can be written back; it has empty `words`. `name` stands for the file in messages.

    Raises:
      UserError: naming file, line and what was expected there.
    """
    if isinstance(source, str | Path):
        with open_for_reading(source) as stream:
            yield from _parse(stream, name or str(source))
    else:
        stream = getattr(source, "buffer", source)  # bytes: a text stream may split at a bare "\r"
        yield from _parse(stream, name or "stdin")


def format_conllu(sentence: Sentence, tags: Sequence[str], *, column: str = "upos") -> str:
    """Returns the sentence as CoNLL-U text with one column replaced, blank line included.

    Raises:
      ValueError: if there is not one tag a word.
    """
    if len(tags) != len(sentence.words):
        raise ValueError(f"{len(tags)} tags for {len(sentence.words)} words")
    lines = list(sentence.lines)
    for index, tag in zip(sentence.word_lines, tags, strict=True):
        columns = lines[index].split("\t")
        columns[TAG_COLUMNS[column]] = tag
        lines[index] = "\t".join(columns)
    return "".join(line + "\n" for line in lines) + "\n"


def _parse(stream: Iterable[bytes | str], file: str) -> Iterator[Sentence]:
    parser = _Parser(file)
    for number, line in decoded_lines(stream, file):
        yield from parser.add(number, line)
    yield from parser.flush()


class _Parser:
    """Collects rows into sentences; `add` and `flush` yield a sentence where one ends."""

    def __init__(self, file: str):
        self.file = file
        self._reset()

    def _reset(self) -> None:
        self.rows: list[tuple[int, list[str]]] = []  # (index in lines, columns) of each word
        self.lines: list[str] = []
        self.comments: list[str] = []  # since the last row: of this sentence or of the next
        self.line = 0
        self.last_range: tuple[str, int] | None = None  # its id, and the last word it spans
        self.num_ranges = 0
        self.num_empty_nodes = 0

    def add(self, number: int, line: str) -> Iterator[Sentence]:
        if not line.strip(" "):
            yield from self.flush()
        elif line.startswith("#"):
            self.comments.append(line)
        else:
            columns = self._columns(number, line)
            if self._starts_sentence(columns[0]):
                yield from self._end_before_comments()
            self.lines += self.comments
            self.comments = []
            self.line = self.line or number
            self._add_row(number, columns)
            self.lines.append(line)

    def flush(self) -> Iterator[Sentence]:
        """Ends the sentence that is open, if one is."""
        if self.last_range and len(self.rows) < self.last_range[1]:
            self._error(self.line, f"{self._missing_word()} before the sentence ends")
        self.lines += self.comments
        if self.lines:
            yield Sentence(
                words=[columns[FORM] for _, columns in self.rows],
                upos=[columns[TAG_COLUMNS["upos"]] for _, columns in self.rows],
                xpos=[columns[TAG_COLUMNS["xpos"]] for _, columns in self.rows],
                file=self.file,
                line=self.line,
                lines=self.lines,
                word_lines=[index for index, _ in self.rows],
                num_ranges=self.num_ranges,
                num_empty_nodes=self.num_empty_nodes,
            )
        self._reset()

    def _end_before_comments(self) -> Iterator[Sentence]:
        # No blank line stands between two sentences: the comments above word 1 belong to it.
        comments, self.comments = self.comments, []
        yield from self.flush()
        self.comments = comments

    def _starts_sentence(self, identifier: str) -> bool:
        """Whether this row opens a new sentence although no blank line came before it."""
        if not self.rows:
            return False
        if any(comment.lstrip("# ").startswith("sent_id") for comment in self.comments):
            return True
        return identifier == "1" or identifier.startswith(("1-", "0."))

    def _columns(self, number: int, line: str) -> list[str]:
        columns = line.split("\t")
        if len(columns) != NUM_COLUMNS:
            hint = "; spaces do not separate columns" if len(columns) == 1 else ""
            self._error(
                number, f"expected {NUM_COLUMNS} tab-separated columns, got {len(columns)}{hint}"
            )
        return columns

    def _add_row(self, number: int, columns: list[str]) -> None:
        identifier = columns[0]
        if _WORD_ID.fullmatch(identifier):
            self._add_word(number, columns)
        elif match := _RANGE_ID.fullmatch(identifier):
            self._add_range(number, identifier, int(match[1]), int(match[2]))
        elif _EMPTY_NODE_ID.fullmatch(identifier):
            self.num_empty_nodes += 1
        else:
            self._error(number, f"expected an id such as 3, 3-4 or 3.1, got '{identifier}'")

    def _add_word(self, number: int, columns: list[str]) -> None:
        identifier, expected = columns[0], len(self.rows) + 1
        if int(identifier) != expected:
            if self.last_range and expected <= self.last_range[1]:
                self._error(number, f"{self._missing_word()}, got id {identifier}")
            self._error(number, f"expected word id {expected}, got {identifier}")
        for name, column in (("FORM", FORM), *((k.upper(), c) for k, c in TAG_COLUMNS.items())):
            if not columns[column].strip(" "):
                self._error(number, f"{name} of word {identifier} is blank: '_' stands for none")
        self.rows.append((len(self.lines), columns))

    def _add_range(self, number: int, identifier: str, first: int, last: int) -> None:
        expected = len(self.rows) + 1
        if first != expected or last < first:
            self._error(number, f"range {identifier} stands where word {expected} was expected")
        self.last_range = identifier, last
        self.num_ranges += 1

    def _missing_word(self) -> str:
        assert self.last_range is not None
        return f"range {self.last_range[0]} lacks its word {len(self.rows) + 1}"

    def _error(self, number: int, message: str) -> None:
        raise UserError(f"{self.file}:{number}: {message}")
