"""Words and punctuation marks as ids, split so that the text can be put together again.

A text is cut at whitespace, and each punctuation mark or symbol (Unicode categories P and S) is a
token of its own: `don't` is three. Such a token is three characters: the mark, and on each side "￭"
where it touches its neighbour or a blank where whitespace parts them, so that `(a, b)` is
`" (￭" "a" "￭, " "b" "￭) "`. Runs of whitespace come back as one blank. A run of letters without
blanks, as in Chinese, is one word: choose another tokenizer there.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np
from jaxtyping import Int

from attention.data.tokenizers.sealed import read_sealed, write_sealed
from attention.data.tokenizers.special import EOS, NUM_SPECIAL, UNK, UNKNOWN_SURFACE
from attention.errors import UserError

NAME = "words"
JOINED, APART = "\uffed", " "
MAYBE_MARK = re.compile(r"\W|_")  # and combining characters: `re` knows no categories


class Tokenizer:
    """Ids from 4 in the order of `words`; what is not among them is unknown."""

    def __init__(self, words: Sequence[str], *, lowercase: bool = False):
        self.words = tuple(words)
        self.lowercase = lowercase
        self._ids = {word: i for i, word in enumerate(self.words, start=NUM_SPECIAL)}

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int,
        lowercase: bool = False,
        min_count: int = 1,
    ) -> Tokenizer:
        """Builds it of the training texts: the most frequent words first, ties in order.

        Args:
          vocab_size: the most ids there may be, the four special ones included.
          min_count: a word seen less often is unknown.

        Raises:
          UserError: if that leaves no word.
        """
        if vocab_size <= NUM_SPECIAL:
            raise UserError(f"data.vocab_size={vocab_size} must be above {NUM_SPECIAL}")
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(split_words(text.lower() if lowercase else text))
        known = [word for word, count in counts.items() if count >= min_count]
        if not counts:
            raise UserError("the texts of the training split are blank: no tokenizer can be made")
        if not known:
            raise UserError(f"the training split has no word seen min_count={min_count} times")
        known.sort(key=lambda word: (-counts[word], word))
        return cls(known[: vocab_size - NUM_SPECIAL], lowercase=lowercase)

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        return NUM_SPECIAL + len(self.words)

    def encode(
        self, text: str, *, sample: int | None = None, alpha: float = 0.0
    ) -> Int[np.ndarray, " t"]:
        """Returns the ids of a text as int32; `sample` and `alpha` change nothing."""
        text = text.lower() if self.lowercase else text
        return np.array([self._ids.get(word, UNK) for word in split_words(text)], np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first end, "□" for an unknown one."""
        before_end = takewhile(lambda i: i != EOS, map(int, ids))
        return join_words(
            UNKNOWN_SURFACE if i == UNK else self.words[i - NUM_SPECIAL]
            for i in before_end
            if i == UNK or i >= NUM_SPECIAL
        )

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the word, or the mark with its sides, of each id of a text; "□" if unknown."""
        return [UNKNOWN_SURFACE if i == UNK else self.words[i - NUM_SPECIAL] for i in map(int, ids)]

    def save(self, folder: Path, *, stem: str = "tokenizer") -> None:
        """Writes STEM.json into an existing folder."""
        fields = {"words": self.words, "lowercase": self.lowercase}
        write_sealed(Path(folder) / f"{stem}.json", {"tokenizer": NAME, **fields})

    @classmethod
    def load(cls, folder: Path, *, stem: str = "tokenizer") -> Tokenizer:
        """Reads what `save` wrote, or raises a UserError that names the file."""
        return cls(**read_sealed(Path(folder) / f"{stem}.json", kind=NAME))


def split_words(text: str) -> Iterator[str]:
    """Yields the words, and the punctuation marks with what stands on their two sides."""
    for chunk in text.split():
        start = 0
        for match in () if chunk.isalnum() else MAYBE_MARK.finditer(chunk):
            at = match.start()
            if not _is_mark(chunk[at]):
                continue
            if at > start:
                yield chunk[start:at]
            left = JOINED if at else APART
            right = JOINED if at + 1 < len(chunk) else APART
            yield left + chunk[at] + right
            start = at + 1
        if start < len(chunk):
            yield chunk[start:]


def join_words(words: Iterable[str]) -> str:
    """Returns the text of which `split_words` made these, whitespace apart."""
    parts: list[str] = []
    apart = False
    for word in words:
        # No word holds a mark, so that what has one in its middle is a mark and its two sides.
        left, surface, right = (
            word if len(word) == 3 and _is_mark(word[1]) else (APART, word, APART)
        )
        if apart and left == APART:
            parts.append(" ")
        parts.append(surface)
        apart = right == APART
    return "".join(parts)


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] in "PS"
