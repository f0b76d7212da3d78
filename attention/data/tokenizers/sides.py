"""The tokenizers of both sides of translation: one for each, or one that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention.data.tokenizers import text

SIDES = ("source", "target")
SHARED = "tokenizer"  # the stem of the files of a shared one

Tokenizers = Mapping[str, text.TextTokenizer]  # by side; the same object twice where it is shared


def build(data: Any, train: Sequence[Mapping[str, Any]]) -> Tokenizers:
    """Fits what the section `data` of a config asks for to the pairs of the training split."""
    options = {"vocab_size": data.vocab_size, "lowercase": data.lowercase}
    if data.tokenizer == "sentencepiece":  # the others only count
        options["max_texts"] = data.get(
            "tokenizer_texts"
        )  # a run from before it was there has none
    kind = text.get(data.tokenizer).Tokenizer

    def fitted(*sides: str) -> text.TextTokenizer:
        return kind.build((pair[side] for side in sides for pair in train), **options)

    if data.shared_vocabulary:
        return dict.fromkeys(SIDES, fitted(*SIDES))
    return {side: fitted(side) for side in SIDES}


def load(data: Any, folder: Path) -> Tokenizers:
    """Reads what `save` wrote."""
    kind = text.get(data.tokenizer).Tokenizer
    if data.shared_vocabulary:
        return dict.fromkeys(SIDES, kind.load(folder, stem=SHARED))
    return {side: kind.load(folder, stem=side) for side in SIDES}


def save(tokenizers: Tokenizers, folder: Path, *, shared: bool) -> None:
    """Writes both, or the one that they share, into an existing folder."""
    if shared:
        tokenizers["source"].save(folder, stem=SHARED)
        return
    for side, tokenizer in tokenizers.items():
        tokenizer.save(folder, stem=side)
