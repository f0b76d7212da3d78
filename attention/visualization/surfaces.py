"""What a token looks like, whatever the tokenizer, and whether it is punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from attention.data.tokenizers.special import BOS, EOS, PAD

SPECIAL = {PAD: "<pad>", BOS: "<s>", EOS: "</s>"}
BLANK = "▁"  # as SentencePiece writes one
JOINED = "￭"  # where the tokenizer of words has no blank beside a mark
BYTE = re.compile(r"<0x([2-7][0-9A-F])>")  # of ASCII, which can be shown


def surfaces(ids: Sequence[int], tokenizer: Any) -> tuple[str, ...]:
    """Returns what stands for each id: its piece, with "▁" for blanks; special ids by name."""
    pieces = [tokenizer.pieces([i])[0] if i not in SPECIAL else SPECIAL[i] for i in ids]
    return tuple(re.sub(r"\s", BLANK, BYTE.sub(_character, piece)) for piece in pieces)


def is_punctuation(surface: str) -> bool:
    """Returns whether a token is punctuation or symbols alone (Unicode categories P and S).

    The names of special ids and of bytes, such as `</s>` and `<0xC3>`, are none.
    """
    text = surface.strip(f"{BLANK}{JOINED} ")
    if not text or text in SPECIAL.values() or text.startswith("<0x"):
        return False
    return all(unicodedata.category(char)[0] in "PS" for char in text)


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))
