"""A probe of distance: the label of a token is the token that stands data.distance before it.

Generated, not downloaded. An example is D + min(D, 256) symbols, drawn independently from 16; the
last min(D, 256) of them are asked. So whatever stands nearer says nothing, chance is 1/16, and a
memory has min(D, 256) symbols to hold. At most 1,000,000 tokens for training.

Citation: the copying memory problem of Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997,
with symbols in place of blanks between.
"""

from __future__ import annotations

from attention.data.dataset import Dataset
from attention.data.probes import Numbers, Probe, load_probe, symbol
from attention.data.tokenizers.labels import NO_LABEL

TASKS = ("pos_tagging",)
OPTIONS = ("distance",)
MOST_ASKED = 256


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    return load_probe(PROBE, options)


def num_asked(distance: int) -> int:
    """Returns how many tokens of an example have a label."""
    return min(distance, MOST_ASKED)


def length(distance: int) -> int:
    """Returns the tokens of an example."""
    return distance + num_asked(distance)


def draw(distance: int, numbers: Numbers) -> tuple[list[str], list[str]]:
    """Returns the words and labels of an example."""
    words = [symbol(number) for number in numbers(length(distance))]
    return words, [NO_LABEL] * distance + words[: num_asked(distance)]


PROBE = Probe("delayed_copy", "1", length, draw, shortest=1)
