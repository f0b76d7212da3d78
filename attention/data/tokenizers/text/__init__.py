"""Tokenizers of running text by file name: one module each, with a class `Tokenizer`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
from jaxtyping import Int

from attention import found_by_name


class TextTokenizer(Protocol):
    """What the class `Tokenizer` of each module does. Ids 0 to 3 are those of `special.py`."""

    @classmethod
    def build(
        cls, texts: Iterable[str], *, vocab_size: int, lowercase: bool = False
    ) -> TextTokenizer:
        """Fits it to the texts of the training split; some take options of their own."""
        ...

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        ...

    def encode(
        self, text: str, *, sample: int | None = None, alpha: float = 0.0
    ) -> Int[np.ndarray, " t"]:
        """Returns the ids of a text as int32, without begin and end.

        Args:
          sample: the seed of a segmentation drawn at random; None for the best one.
          alpha: how random, 0 for not at all. Tokenizers with one segmentation ignore both.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first end of sequence."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns what each id of a text stands for, for people to read."""
        ...

    def save(self, folder: Path, *, stem: str = "tokenizer") -> None:
        """Writes it into an existing folder, under a name that sets it apart from others there."""
        ...

    @classmethod
    def load(cls, folder: Path, *, stem: str = "tokenizer") -> TextTokenizer:
        """Reads what `save` wrote, or raises a UserError that names the file."""
        ...


def names() -> tuple[str, ...]:
    """Returns the names of all text tokenizers."""
    return found_by_name.names_in(__path__)


def get(name: str) -> ModuleType:
    """Returns the module of a tokenizer, or raises a UserError that lists the names."""
    return found_by_name.load(__name__, name, names(), key="data.tokenizer")
