"""What is shown of one example: its maps with the names of rows and columns, and their numbers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from attention.visualization.capture import Captured, Layer
from attention.visualization.inputs import Inputs, Sequences
from attention.visualization.maps import Found
from attention.visualization.measures import Measures, Sums, sums_of
from attention.visualization.surfaces import is_punctuation

# What the tokens of a sequence are, as the axes of a picture say.
SEQUENCES = {
    "tokens": "token",
    "text": "the text as a whole",
    "source": "source token",
    "read": "target token read",
    "written": "target token to be written",
}


class Shown(NamedTuple):
    """A map ready to be drawn.

    Attributes:
        found: which, and of what kind.
        values: of each head.
        rows, columns: names of queries and keys.
        sums: what the numbers of its heads are made of.
    """

    found: Found
    values: Float[np.ndarray, "n t s"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sums: Sums

    @property
    def heads(self) -> tuple[Measures, ...]:
        """Returns the numbers of each head."""
        return tuple(self.sums.means())

    @property
    def axes(self) -> tuple[str, str]:
        """Returns what rows and columns are."""
        place = self.found.place
        return SEQUENCES[place.queries], SEQUENCES[place.keys]

    @property
    def names(self) -> tuple[str, ...]:
        """Returns what the heads are called; a map without heads has one."""
        number = len(self.values)
        return tuple(f"head {head + 1}" for head in range(number)) if number > 1 else ("all",)

    def only(self, head: int) -> Shown:
        """Returns the map of one head."""
        return self._replace(values=self.values[head : head + 1], sums=self.sums.only(head))


class Example(NamedTuple):
    """An example with all that is shown of it.

    Attributes:
        number: from 1, in the order of the file.
        line: in the file.
        answer: what the model makes of it.
        sequences: its tokens.
        maps: in the order in which the model computes them.
    """

    number: int
    line: int
    answer: str
    sequences: Sequences
    maps: tuple[Shown, ...]


def results_of(inputs: Inputs, captured: list[Captured]) -> list[Example]:
    """Joins what was read and what was captured."""
    found = []
    for index, one in enumerate(captured):
        sequences = inputs.sequences[index]
        maps = tuple(_shown(layer, sequences) for layer in one.layers)
        line, answer = inputs.lines[index], inputs.answers[index]
        found.append(Example(index + 1, line, answer, sequences, maps))
    return found


def _shown(layer: Layer, sequences: Sequences) -> Shown:
    place = layer.found.place
    rows, columns = sequences[place.queries], sequences[place.keys]
    if layer.values.shape[2] > len(columns):
        columns = (*columns, "</s>")  # a pointer alone has a key of its own for the end
    punctuation = np.array([is_punctuation(name) for name in columns], bool)
    ordered = place.queries != "text"
    sums = sums_of(layer.values, punctuation=punctuation, ordered=ordered)
    return Shown(layer.found, layer.values, rows, columns, sums)


def mean_over_examples(examples: Sequence[Example]) -> dict[str, list[Measures]]:
    """Returns, by place, each head's numbers over all queries of all examples.

    A query counts once wherever it stands, and where it has no weight only in the total.
    """
    collected: dict[str, list[Sums]] = {}
    for example in examples:
        for shown in example.maps:
            collected.setdefault(shown.found.place.name, []).append(shown.sums)
    return {name: functools.reduce(operator.add, sums).means() for name, sums in collected.items()}
