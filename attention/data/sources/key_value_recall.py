"""A probe of recall: a key is asked for, and its value stood about data.distance tokens before.

Generated, not downloaded. An example is a row of pairs, each with a question behind it. A pair is
one token of two characters: a key, which no other pair of the example has, and its value, drawn
independently from 16, so that chance is 1/16. The first questions are "."; each of the last, at
most 256, is a key and "?", asked for once, whose pair stood `distance` before on average, at most a
quarter nearer or farther (more below 40 tokens). All pairs there are as good candidates: a place
alone tells at most 1/4 of the answers at a distance of 8, 1/5 at 32, 1/16 at 128, less beyond. At
most a million tokens for training.

Citation: the associative recall of Arora et al., "Zoology: Measuring and Improving Recall in
Efficient Language Models", 2023, arXiv 2312.04927, at a distance that is set, and with key and
value in one token, so that it asks for memory alone and not for the joining of two.
"""

from __future__ import annotations

from typing import NamedTuple

from attention.data.dataset import Dataset
from attention.data.probes import Numbers, Probe, load_probe, shuffled, symbol
from attention.data.tokenizers.labels import NO_LABEL

TASKS = ("pos_tagging",)
OPTIONS = ("distance",)
TOKENS = 2  # a pair and a question
MOST_ASKED = 256
FILLER, ASKED = ".", "?"
FIRST_KEY = 0x4E00  # 20,992 ideographs: one character a key, however many there are


class Reach(NamedTuple):
    """Where the pairs stand that questions are about.

    Attributes:
      middle: how many pairs back, on average.
      width: so many questions, one after the other, ask for as many pairs, one after the other, in
        any order.
    """

    middle: int
    width: int

    @property
    def farthest(self) -> int:
        """The most pairs back."""
        return self.middle + self.width - 1


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    return load_probe(PROBE, options)


def reach_of(distance: int) -> Reach:
    """Returns where the pairs stand: the wider, the less a place alone tells of the answer."""
    middle = distance // TOKENS
    return Reach(middle, min(middle, max(5, middle // 4)))


def num_asked(distance: int) -> int:
    """Returns how many questions an example has."""
    reach = reach_of(distance)
    most = min(reach.farthest, MOST_ASKED)
    return most - most % reach.width if most > reach.width else most


def num_pairs(distance: int) -> int:
    """Returns the pairs of an example."""
    return reach_of(distance).farthest + num_asked(distance)


def length(distance: int) -> int:
    """Returns the tokens of an example."""
    return TOKENS * num_pairs(distance)


def draw(distance: int, numbers: Numbers) -> tuple[list[str], list[str]]:
    """Returns the words and labels of an example."""
    total = num_pairs(distance)
    # Twice as many keys as pairs, so that which ones are there is no news.
    keys = [chr(FIRST_KEY + key) for key in shuffled(2 * total, numbers)[:total]]
    values = [symbol(number) for number in numbers(total)]
    words, labels = [], []
    for key, value, asked in zip(keys, values, _asked(distance, numbers), strict=True):
        words += [key + value, FILLER if asked is None else keys[asked] + ASKED]
        labels += [NO_LABEL, NO_LABEL if asked is None else values[asked]]
    return words, labels


def _asked(distance: int, numbers: Numbers) -> list[int | None]:
    """Returns the pair that each question asks for, None for the first ones; none comes twice."""
    (middle, width), asked = reach_of(distance), num_asked(distance)
    found: list[int | None] = [None] * reach_of(distance).farthest
    block = min(width, asked)
    for _ in range(asked // block):
        first = len(found) - middle - (width - block) // 2
        found += [first + number for number in shuffled(width, numbers)[:block]]
    return found


PROBE = Probe("key_value_recall", "1", length, draw, shortest=4)
