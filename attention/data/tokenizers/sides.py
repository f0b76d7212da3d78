"""The tokenizers of both sides of translation: one for each, or one that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention.data.streams import Encoded
from attention.data.tokenizers import text
from attention.data.tokenizers.special import BOS, EOS, PAD

SIDES = ("source", "target")
SHARED = "tokenizer"  # the stem of the files of a shared one

Tokenizers = Mapping[str, text.TextTokenizer]  # by side; the same object twice where it is shared


def build(data: Any, train: Sequence[Mapping[str, Any]]) -> Tokenizers:
    """Fits what the section `data` of a config asks for to the pairs of the training split."""
    options = {"vocab_size": data.vocab_size, "lowercase": data.lowercase}
    if data.tokenizer == "sentencepiece":  # the others only count
        # A run from before there was this has none.
        options["max_texts"] = data.get("tokenizer_texts")
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


def encode_pair(
    tokenizers: Tokenizers, pair: Mapping[str, Any], *, sample: int | None = None, alpha: float
) -> Encoded:
    """Returns `source` with `ids` and an EOS, `target` with `inputs` behind a BOS and `labels`.

    Args:
      tokenizers: of both sides.
      pair: source and target.
      sample, alpha: see `text.TextTokenizer.encode`.
    """
    source, target = (
        tokenizers[side].encode(pair[side], sample=sample, alpha=alpha) for side in SIDES
    )
    end = np.int32(EOS)
    inputs = np.concatenate([[BOS], target]).astype(np.int32)
    return {
        "source": {"ids": np.append(source, end)},
        "target": {"inputs": inputs, "labels": np.append(target, end)},
    }


def pieces(tokenizers: Tokenizers, source: np.ndarray, target: np.ndarray) -> list[list[str]]:
    """Returns the pieces of the ids of both sides, without ends and padding."""
    return [
        tokenizers[side].pieces([i for i in ids.tolist() if i not in (PAD, EOS)])
        for side, ids in zip(SIDES, (source, target), strict=True)
    ]
