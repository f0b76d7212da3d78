"""Results made by hand, to draw and to write."""

from __future__ import annotations

import numpy as np

from attention.visualization.maps import JACOBIAN, WEIGHTS, Found
from attention.visualization.measures import sums_of
from attention.visualization.places import Place
from attention.visualization.results import Example, Shown

TOKENS = ("</script>", "$a_b$", "字", "&", "“")
PLACES = (
    Found(Place("encoder-1", "encoder layer 1", "tokens", "tokens"), WEIGHTS, "scaled_dot", ""),
    Found(Place("pooling", "pooling", "text", "tokens"), JACOBIAN, "", "takes the largest"),
)


def example(number: int = 1, *, below_zero: bool = False) -> Example:
    """Returns an example with two maps: of two heads, and of a pooling."""
    generator = np.random.default_rng(number)
    weights = generator.dirichlet(np.ones(5), size=(2, 5)).astype(np.float32)
    if below_zero:
        weights[0, 0, 0] = -0.5
    maps = []
    for found, values in zip(PLACES, (weights, weights[:1, :1]), strict=True):
        rows = TOKENS if found.place.queries == "tokens" else ("label good",)
        ordered = found.place.queries == "tokens"
        sums = sums_of(values, punctuation=np.zeros(5, bool), ordered=ordered)
        maps.append(Shown(found, values, rows, TOKENS, sums))
    return Example(number, 2 * number, "good <b>", {"tokens": TOKENS}, tuple(maps))
