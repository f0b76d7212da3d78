"""Bytes of UTF-8 as ids: nothing is unknown and nothing is learned.

The setting of the "text" task of the Long Range Arena (arXiv 2011.04006), which reads up to 4,096.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np
from jaxtyping import Int

from attention.data.tokenizers.sealed import read_sealed, write_sealed
from attention.data.tokenizers.special import EOS, NUM_SPECIAL, UNK, UNKNOWN_SURFACE

NAME = "bytes"
NUM_BYTES = 256


class Tokenizer:
    """Byte b has the id b + 4. Lower case, where chosen, is made before."""

    def __init__(self, *, lowercase: bool = False):
        self.lowercase = lowercase

    @classmethod
    def build(
        cls, texts: Iterable[str], *, vocab_size: int = 0, lowercase: bool = False
    ) -> Tokenizer:
        """Reads no text: there are always 256 bytes, whatever `vocab_size` says."""
        return cls(lowercase=lowercase)

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        return NUM_SPECIAL + NUM_BYTES

    def encode(
        self, text: str, *, sample: int | None = None, alpha: float = 0.0
    ) -> Int[np.ndarray, " t"]:
        """Returns the ids of a text as int32; `sample` and `alpha` change nothing."""
        text = text.lower() if self.lowercase else text
        return np.frombuffer(text.encode(errors="replace"), np.uint8).astype(np.int32) + NUM_SPECIAL

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first end; what is no UTF-8 becomes U+FFFD."""
        before_end = takewhile(lambda i: i != EOS, map(int, ids))
        data = bytes(i - NUM_SPECIAL for i in before_end if i >= NUM_SPECIAL)
        return data.decode(errors="replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the number of each byte, as in <0x41>; "□" for the unknown id, of no byte."""
        return [
            UNKNOWN_SURFACE if i == UNK else f"<0x{i - NUM_SPECIAL:02X}>" for i in map(int, ids)
        ]

    def save(self, folder: Path, *, stem: str = "tokenizer") -> None:
        """Writes STEM.json into an existing folder."""
        fields = {"tokenizer": NAME, "lowercase": self.lowercase}
        write_sealed(Path(folder) / f"{stem}.json", fields)

    @classmethod
    def load(cls, folder: Path, *, stem: str = "tokenizer") -> Tokenizer:
        """Reads what `save` wrote, or raises a UserError that names the file."""
        return cls(**read_sealed(Path(folder) / f"{stem}.json", kind=NAME))
