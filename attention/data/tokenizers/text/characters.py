"""Characters as ids: the Unicode code points of the training split, whitespace included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np
from jaxtyping import Int

from attention.data.tokenizers.sealed import read_sealed, write_sealed
from attention.data.tokenizers.special import EOS, NUM_SPECIAL, UNK, UNKNOWN_SURFACE
from attention.errors import UserError

NAME = "characters"


class Tokenizer:
    """Ids from 4 in the order of `characters`; what is not among them is unknown."""

    def __init__(self, characters: str, *, lowercase: bool = False):
        self.characters = characters
        self.lowercase = lowercase
        self._ids = {char: i for i, char in enumerate(characters, start=NUM_SPECIAL)}

    @classmethod
    def build(cls, texts: Iterable[str], *, vocab_size: int, lowercase: bool = False) -> Tokenizer:
        """Builds it of the training texts: the most frequent characters first, ties in order.

        Args:
          vocab_size: the most ids there may be, the four special ones included.

        Raises:
          UserError: if that leaves room for no character, or there is none.
        """
        if vocab_size <= NUM_SPECIAL:
            raise UserError(f"data.vocab_size={vocab_size} must be above {NUM_SPECIAL}")
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text.lower() if lowercase else text)
        if not counts:
            raise UserError("the texts of the training split are blank: no tokenizer can be made")
        ordered = sorted(counts, key=lambda char: (-counts[char], char))
        return cls("".join(ordered[: vocab_size - NUM_SPECIAL]), lowercase=lowercase)

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        return NUM_SPECIAL + len(self.characters)

    def encode(
        self, text: str, *, sample: int | None = None, alpha: float = 0.0
    ) -> Int[np.ndarray, " t"]:
        """Returns the ids of a text as int32; `sample` and `alpha` change nothing."""
        text = text.lower() if self.lowercase else text
        ids = self._ids
        return np.array([ids.get(char, UNK) for char in text], np.int32)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first end, "□" for an unknown one."""
        before_end = takewhile(lambda i: i != EOS, map(int, ids))
        return "".join(
            UNKNOWN_SURFACE if i == UNK else self.characters[i - NUM_SPECIAL]
            for i in before_end
            if i == UNK or i >= NUM_SPECIAL
        )

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the character of each id of a text, "□" for the unknown one."""
        return [
            UNKNOWN_SURFACE if i == UNK else self.characters[i - NUM_SPECIAL] for i in map(int, ids)
        ]

    def save(self, folder: Path, *, stem: str = "tokenizer") -> None:
        """Writes STEM.json into an existing folder."""
        fields = {"characters": self.characters, "lowercase": self.lowercase}
        write_sealed(Path(folder) / f"{stem}.json", {"tokenizer": NAME, **fields})

    @classmethod
    def load(cls, folder: Path, *, stem: str = "tokenizer") -> Tokenizer:
        """Reads what `save` wrote, or raises a UserError that names the file."""
        return cls(**read_sealed(Path(folder) / f"{stem}.json", kind=NAME))
