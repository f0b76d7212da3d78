"""A small made-up language in CoNLL-U: endings tell the tags, with a few exceptions to learn."""

from __future__ import annotations

import random
from pathlib import Path

ENDINGS = {"NOUN": ("on", "ur"), "VERB": ("at", "iz"), "ADJ": ("esk",), "PUNCT": (".",)}
STEMS = ("bal", "kor", "mun", "dav", "sil", "tre", "gop", "ñu", "żar", "李")


def sentences(count: int, *, seed: int, longest: int = 20) -> list[list[tuple[str, str]]]:
    """Sentences of 1 to `longest` (word, tag) pairs."""
    generator = random.Random(seed)
    made = []
    for _ in range(count):
        length = generator.randint(1, longest)
        tags = [generator.choice(("NOUN", "VERB", "ADJ")) for _ in range(length - 1)] + ["PUNCT"]
        made.append([(_word(tag, generator), tag) for tag in tags])
    return made


def _word(tag: str, generator: random.Random) -> str:
    ending = generator.choice(ENDINGS[tag])
    return ending if tag == "PUNCT" else generator.choice(STEMS) + ending


def conllu(made: list[list[tuple[str, str]]]) -> str:
    """The sentences as CoNLL-U text; the language-specific tag is the lower-case one."""
    blocks = []
    for sentence in made:
        rows = [
            f"{number}\t{word}\t_\t{tag}\t{tag.lower()}\t_\t_\t_\t_\t_"
            for number, (word, tag) in enumerate(sentence, start=1)
        ]
        blocks.append("\n".join(rows) + "\n\n")
    return "".join(blocks)


def write_treebank(
    folder: Path, *, train: int = 60, dev: int = 12, test: int = 9
) -> dict[str, str]:
    """Writes three files; returns the overrides that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    overrides = {}
    splits = (("train", "train", train), ("dev", "eval", dev), ("test", "test", test))
    for seed, (split, key, count) in enumerate(splits):
        path = folder / f"{split}.conllu"
        path.write_text(conllu(sentences(count, seed=seed)), encoding="utf-8")
        overrides[f"data.{key}_path"] = str(path)
    return overrides
