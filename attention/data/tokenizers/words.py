"""Words as ids and as rows of character ids, so that a word never seen still has a spelling."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention.data.tokenizers.sealed import read_sealed, write_sealed
from attention.errors import UserError

PAD, UNKNOWN = 0, 1
BEGIN, END = 2, 3  # of a word, among the characters
FIRST_WORD, FIRST_CHAR = 2, 4

FILE = "words.json"
MAX_CACHED_WORDS = 200_000


class WordTokenizer:
    """Gives each word its id and its characters' ids. Word ids 0 and 1 are padding and unknown.

    Characters are Unicode code points, with begin and end symbols around them; 0 is padding, 1
    unknown. Lower case, where chosen, is for word ids only: the characters keep the case.
    """

    def __init__(
        self,
        words: Sequence[str],
        chars: Sequence[str],
        *,
        lowercase: bool = False,
        max_word_length: int,
    ):
        """Makes the tokenizer of a list of words and one of characters, ids in their order.

        Raises:
          UserError: if `max_word_length` is below 2.
        """
        if max_word_length < 2:
            raise UserError(f"data.max_word_length={max_word_length} must be at least 2")
        self.words = tuple(words)
        self.chars = tuple(chars)
        self.lowercase = lowercase
        self.max_word_length = max_word_length
        self._word_ids = {word: i for i, word in enumerate(self.words, start=FIRST_WORD)}
        self._char_ids = {char: i for i, char in enumerate(self.chars, start=FIRST_CHAR)}
        self._cache: dict[str, tuple[int, np.ndarray]] = {}

    @classmethod
    def build(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        min_count: int,
        lowercase: bool = False,
        max_word_length: int,
    ) -> WordTokenizer:
        """Builds it of the training words; rarer ones than `min_count` share the unknown id.

        Every character of the training words gets an id, the most frequent first.
        """
        counts = Counter(word for words in sentences for word in words)
        chars: Counter[str] = Counter()
        known: Counter[str] = Counter()
        for word, count in counts.items():
            known[word.lower() if lowercase else word] += count
            for char in word:
                chars[char] += count
        return cls(
            [word for word in _by_count(known) if known[word] >= min_count],
            _by_count(chars),
            lowercase=lowercase,
            max_word_length=max_word_length,
        )

    @property
    def num_words(self) -> int:
        """Word ids, padding and unknown included."""
        return FIRST_WORD + len(self.words)

    @property
    def num_chars(self) -> int:
        """Character ids, padding, unknown, begin and end included."""
        return FIRST_CHAR + len(self.chars)

    @property
    def char_width(self) -> int:
        """Character ids a word, begin and end included: the last axis of `chars`."""
        return self.max_word_length + 2

    def encode(self, words: Sequence[str]) -> dict[str, np.ndarray]:
        """Returns int32 `words` [t] and `chars` [t c], c = `char_width`.

        Of a word longer than `max_word_length` the first and the last characters are kept, half
        and half: endings tell more than middles.
        """
        encoded = [self._encode_word(word) for word in words]
        chars = np.zeros((len(words), self.char_width), np.int32)
        for row, (_, ids) in zip(chars, encoded, strict=True):
            row[:] = ids
        return {"words": np.array([i for i, _ in encoded], np.int32), "chars": chars}

    def count_long_words(self, words: Iterable[str]) -> int:
        """Returns how many words lose characters from their middle."""
        return sum(len(word) > self.max_word_length for word in words)

    def count_unknown_words(self, words: Iterable[str]) -> int:
        """Returns how many words have the unknown id."""
        return sum(self._word_id(word) == UNKNOWN for word in words)

    @property
    def fingerprint(self) -> str:
        """A sha256 hex digest of everything that decides the ids."""
        return hashlib.sha256(json.dumps(self._fields(), indent=0).encode()).hexdigest()

    def save(self, directory: str | Path) -> None:
        """Writes the tokenizer into an existing folder."""
        write_sealed(Path(directory) / FILE, self._fields())

    @classmethod
    def load(cls, directory: str | Path) -> WordTokenizer:
        """Reads what `save` wrote, or raises a UserError that names the file."""
        return cls(**read_sealed(Path(directory) / FILE))

    def _fields(self) -> dict[str, Any]:
        names = ("lowercase", "max_word_length", "chars", "words")
        return {name: getattr(self, name) for name in names}

    def _word_id(self, word: str) -> int:
        return self._word_ids.get(word.lower() if self.lowercase else word, UNKNOWN)

    def _encode_word(self, word: str) -> tuple[int, np.ndarray]:
        encoded = self._cache.get(word)
        if encoded is None:
            if len(self._cache) >= MAX_CACHED_WORDS:  # a stream of ever new words must not grow it
                self._cache.clear()
            encoded = self._cache[word] = self._word_id(word), self._char_row(word)
        return encoded

    def _char_row(self, word: str) -> np.ndarray:
        if len(word) > self.max_word_length:
            tail = self.max_word_length // 2
            word = word[: self.max_word_length - tail] + word[-tail:]
        row = np.zeros(self.char_width, np.int32)
        ids = [BEGIN, *(self._char_ids.get(char, UNKNOWN) for char in word), END]
        row[: len(ids)] = ids
        return row


def _by_count(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda key: (-counts[key], key))
