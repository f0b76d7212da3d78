"""Some of many texts, drawn at random in one pass: all of them need never be in memory."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

SEED = 0  # one for all runs: vocabularies are compared between seeds


class Drawn(NamedTuple):
    """The texts that were kept, in their order, of so many."""

    texts: list[str]
    number: int


def draw_texts(texts: Iterable[str], most: int | None) -> Drawn:
    """Keeps at most so many texts, each with the same chance; None = all.

    The same texts in the same order give the same draw. Vitter 1985, "Random sampling with a
    reservoir", algorithm R: text i takes a place with chance most / i.
    """
    generator, kept, number = random.Random(SEED), [], 0
    for number, text in enumerate(texts, start=1):
        if most is None or len(kept) < most:
            kept.append((number, text))
            continue
        # Python promises the same numbers in all versions of `random` alone, not of `randrange`.
        place = int(generator.random() * number)
        if place < most:
            kept[place] = (number, text)
    return Drawn([text for _, text in sorted(kept)], number)
