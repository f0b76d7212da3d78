"""Generated tagged sentences that ask what stood a given distance away: made here, not downloaded.

A probe has 16 symbols; where something is asked, the label of a token is one of them, and nowhere
else is there a label. Train, dev and test are drawn from numbers of their own. The longer the
examples, the fewer there are: the splits have about as many tokens at each distance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from attention.data.dataset import Dataset, Record
from attention.data.stored import SplitSource, load_stored
from attention.data.tagging import LIST_KEYS, count_tagged, split_lists
from attention.data.tokenizers.labels import NO_LABEL
from attention.errors import UserError

NUM_SYMBOLS = 16
DEFAULT_DISTANCE, MAX_DISTANCE = 64, 2**13
SPLITS = {"train": (2**20, 8192), "dev": (2**16, 1024), "test": (2**16, 1024)}  # tokens, examples
FEWEST = 32  # examples of a split, however long

Numbers = Callable[[int], Int[np.ndarray, " n"]]


class Probe(NamedTuple):
    """What a probe is made of.

    Attributes:
      name: of the data set.
      version: of how examples are drawn.
      length: distance -> tokens of an example.
      draw: (distance, numbers) -> words and labels of an example, where `numbers(n)` gives the next
        n numbers from 0 to 2**31 - 1.
      shortest: the least distance.
    """

    name: str
    version: str
    length: Callable[[int], int]
    draw: Callable[[int, Numbers], tuple[list[str], list[str]]]
    shortest: int


def symbol(number: int) -> str:
    """Returns one of the symbols, a letter, for any number of 0 or more."""
    return chr(ord("a") + number % NUM_SYMBOLS)


def shuffled(number: int, numbers: Numbers) -> list[int]:
    """Returns 0 … number − 1 in an order decided by the next numbers."""
    return np.argsort(numbers(number), kind="stable").tolist()


def load_probe(probe: Probe, options: Mapping[str, Any]) -> Dataset:
    """Makes the splits of a probe where that is not done yet, and opens them.

    Raises:
      UserError: a distance out of reach.
    """
    asked = options.get("distance")
    distance = DEFAULT_DISTANCE if asked is None else asked
    if not probe.shortest <= distance <= MAX_DISTANCE:
        raise UserError(
            f"data.distance={distance}: {probe.name} takes {probe.shortest} to {MAX_DISTANCE}"
        )
    made_from = (f"{distance}", f"{NUM_SYMBOLS}", f"{sorted(SPLITS.items())}")
    sources = {
        split: SplitSource(
            partial(_records, probe, distance, number), made_from, (Path(probe.name),)
        )
        for number, split in enumerate(SPLITS)
    }
    return load_stored(
        probe.name, sources, text_keys=LIST_KEYS, version=probe.version, finish=split_lists
    )


def num_examples(split: str, length: int) -> int:
    """Returns how many examples of a length a split has."""
    tokens, most = SPLITS[split]
    return min(most, max(FEWEST, tokens // length))


def _records(probe: Probe, distance: int, number: int, counts: Counter) -> Iterator[Record]:
    total = num_examples(list(SPLITS)[number], probe.length(distance))
    for index in range(total):
        # NumPy promises the raw numbers of a bit generator, and not what it makes of them.
        bits = np.random.PCG64(np.random.SeedSequence([number, distance, index]))
        words, labels = probe.draw(distance, lambda n, bits=bits: _next(bits, n))
        unlabelled = [NO_LABEL] * len(words)
        example = {"words": words, "upos": labels, "xpos": unlabelled}
        counts.update(count_tagged(example))
        yield {key: "\t".join(each) for key, each in example.items()} | {
            "line": index + 1,
            "file": 0,
        }


def _next(bits: np.random.PCG64, number: int) -> Int[np.ndarray, " n"]:
    raw: Any = bits.random_raw(number)
    return (raw >> np.uint64(33)).astype(np.int64)
