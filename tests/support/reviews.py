"""Made-up reviews in TSV: what they hold most of, good words or bad ones, is their label."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from support.runs import SMALL

from attention import configuration

SPEC = "configs/sentiment.py:dataset=files,size=tiny"
WORDS = {"good": ("lovely", "warm", "grand"), "bad": ("dull", "grim", "stale")}
PLAIN = ("film", "plot", "the", "a", "scene", "żart", "李", "ends.")
# A dozen steps of a small model: what the recipe of tagging shares with that of sentiment.
OTHERS = ("model.word_dim", "model.char_dim", "data.max_word_length")
SMALL_REVIEWS = {key: value for key, value in SMALL.items() if key not in OTHERS} | {
    "data.vocab_size": 80
}


def reviews(count: int, *, seed: int, longest: int = 12) -> list[tuple[str, str]]:
    """Texts of 1 to `longest` words, each with its label."""
    generator = random.Random(seed)
    made = []
    for _ in range(count):
        label = generator.choice(("good", "bad"))
        words = [generator.choice(WORDS[label])]
        for _ in range(generator.randint(0, longest - 1)):
            words.append(generator.choice(PLAIN))
        generator.shuffle(words)
        made.append((" ".join(words), label))
    return made


def tsv(made: list[tuple[str, str]]) -> str:
    return "".join(f"{text}\t{label}\n" for text, label in made)


def write_reviews(folder: Path, *, train: int = 60, dev: int = 12, test: int = 9) -> dict[str, str]:
    """Writes three files; returns the overrides that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    overrides = {}
    splits = (("train", "train", train), ("dev", "eval", dev), ("test", "test", test))
    for seed, (split, key, count) in enumerate(splits):
        path = folder / f"{split}.tsv"
        path.write_text(tsv(reviews(count, seed=seed)), encoding="utf-8")
        overrides[f"data.{key}_path"] = str(path)
    return overrides


def review_overrides(folder: Path, **overrides: Any) -> dict[str, Any]:
    """Overrides for a run of a dozen steps on reviews written in `folder`."""
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    return {**SMALL_REVIEWS, **write_reviews(folder), **given}


def review_config(folder: Path, *, spec: str = SPEC, **overrides: Any) -> Any:
    """The config of such a run; `model__dim=8` sets model.dim."""
    return configuration.load_config(spec, review_overrides(folder, **overrides))
