"""Made-up parallel text, and small runs of translation over it: targets are sources reversed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attention import configuration

SPEC = "configs/translation.py:dataset=files,size=tiny"
WORDS = ("red", "dog", "tall", "man", "sees", "two", "green", "cats")
SMALL = {
    "model.dim": 16,
    "model.dropout_rate": 0.1,
    "data.vocab_size": 60,
    "data.max_length": 16,
    "decode.max_length": 12,
    "decode.beam_size": 2,
    "batch_tokens": 128,
    "train_steps": 12,
    "optimizer.warmup_steps": 4,
    "log_every_steps": 1,
    "eval_every_steps": 6,
    "checkpoint_every_steps": 4,
}
OF_TRANSFORMERS = {"model.num_heads": 2, "model.mlp_dim": 32, "model.decoder_mlp_dim": 24}


def pairs(number: int, *, seed: int) -> list[tuple[str, str]]:
    """Returns sentences of two to five words with what they read backwards."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(number):
        words = [WORDS[i] for i in random.integers(0, len(WORDS), random.integers(2, 6))]
        made.append((" ".join(words), " ".join(reversed(words))))
    return made


def write_pairs(folder: Path) -> dict[str, str]:
    """Writes train, dev and test in `folder`; returns the config keys that name the files.

    Dev has a blank source and a blank reference.
    """
    folder.mkdir(parents=True, exist_ok=True)
    splits = {
        "train": pairs(400, seed=0),
        "eval": [*pairs(8, seed=1), ("", "two dogs"), ("tall man", "")],
        "test": pairs(7, seed=2),
    }
    keys = {}
    for split, made in splits.items():
        for side, texts in zip(("source", "target"), zip(*made, strict=True), strict=True):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            keys[f"data.{split}_{side}_path"] = str(path)
    return keys


def pairs_config(folder: Path, argument: str = "", **overrides: Any) -> Any:
    """Returns the config of a small run over pairs written in `folder`; `a__b=1` sets a.b."""
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    own = {} if "model=recurrent" in argument else OF_TRANSFORMERS
    keys = {**SMALL, **own, **write_pairs(folder), **given}
    spec = f"{SPEC},{argument}" if argument else SPEC
    return configuration.load_config(spec, keys)
