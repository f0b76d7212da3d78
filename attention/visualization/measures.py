"""Numbers about maps of weights: how sharp, how far, at what, and how alike the heads are.

Each query's row is first made to add up to 1, p_j = |w_j| / Σ|w|, since there are weights below 0
or with another sum. Rows without any weight are left out of the means over queries.
Definitions with their reasons: docs/visualize.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Measures(NamedTuple):
    """Numbers of one head; NaN where one means nothing.

    Attributes:
        entropy: −Σ p log p in nats.
        effective_keys: e^entropy: as many keys with equal weights have the same entropy.
        distance: Σ p_j |j − d_i|, in keys, from the diagonal d_i = i·(s − 1)/(t − 1).
        diagonal: share of the key nearest to the diagonal.
        first: share of the first key.
        punctuation: share of keys that are punctuation.
        agreement: with the other heads: mean of 1 − JSD/log 2; 1 for equal rows, 0 for rows that
            share no key.
        total: Σ w, before anything is made to add up to 1.
    """

    entropy: float
    effective_keys: float
    distance: float
    diagonal: float
    first: float
    punctuation: float
    agreement: float
    total: float


@dataclasses.dataclass(frozen=True)
class Sums:
    """Sums over queries with how many these are, so that those of several examples add up.

    Attributes:
        numbers: of each number that is a mean over queries, the sum and the count of each head.
        alike: the same of 1 − JSD/log 2, over the queries that have weight in both of two heads.
    """

    numbers: Mapping[str, Float[np.ndarray, "2 n"]]
    alike: Float[np.ndarray, "2 n others"]

    def __add__(self, other: Sums) -> Sums:
        numbers = {name: each + other.numbers[name] for name, each in self.numbers.items()}
        return Sums(numbers, self.alike + other.alike)

    def only(self, head: int) -> Sums:
        """Returns those of one head."""
        one = slice(head, head + 1)
        return Sums({name: each[:, one] for name, each in self.numbers.items()}, self.alike[:, one])

    def means(self) -> list[Measures]:
        """Returns the numbers of each head."""
        columns = {name: _divided(*each) for name, each in self.numbers.items()}
        alike = _divided(*self.alike)
        known = ~np.isnan(alike)
        others = np.sum(np.where(known, alike, 0.0), axis=1)
        columns["agreement"] = _divided(others, np.sum(known, axis=1))
        columns["effective_keys"] = np.exp(columns["entropy"])
        heads = range(len(alike))
        return [
            Measures(**{name: float(each[head]) for name, each in columns.items()})
            for head in heads
        ]


def sums_of(
    values: Float[np.ndarray, "n t s"],
    *,
    punctuation: Bool[np.ndarray, " s"],
    ordered: bool = True,
) -> Sums:
    """Returns the sums of one example.

    Args:
        values: weights, or norms.
        punctuation: which keys are.
        ordered: whether queries have places that a diagonal can join to keys; a text as a whole
            has none.
    """
    shares, seen = shares_of(values)
    distance, nearest = _from_diagonal(*values.shape[1:])
    # All of them 0 in rows without weight.
    columns: dict[str, np.ndarray] = {
        "entropy": -np.sum(shares * np.log(np.where(shares > 0.0, shares, 1.0)), axis=2),
        "distance": np.sum(shares * distance, axis=2),
        "diagonal": np.sum(shares * nearest, axis=2),
        "first": shares[:, :, 0],
        "punctuation": np.sum(shares * punctuation, axis=2),
    }
    counts = np.sum(seen, axis=1)
    numbers = {name: np.stack([np.sum(each, axis=1), counts]) for name, each in columns.items()}
    if not ordered:
        numbers["distance"] = numbers["diagonal"] = np.zeros((2, len(values)))
    total = np.sum(values, axis=(1, 2), dtype=np.float64)
    numbers["total"] = np.stack([total, np.full(len(values), values.shape[1])])
    return Sums(numbers, _alike(shares, seen))


def shares_of(
    values: Float[np.ndarray, "n t s"],
) -> tuple[Float[np.ndarray, "n t s"], Bool[np.ndarray, "n t"]]:
    """Returns |w| / Σ|w| of each row, zeros where it has no weight, and which rows have some."""
    sizes = np.abs(values.astype(np.float64))
    total = np.sum(sizes, axis=2, keepdims=True)
    return sizes / np.where(total > 0.0, total, 1.0), total[:, :, 0] > 0.0


def _alike(
    shares: Float[np.ndarray, "n t s"], seen: Bool[np.ndarray, "n t"]
) -> Float[np.ndarray, "2 n n"]:
    """Returns how alike the rows of each two heads are, summed and counted; none of a head and
    itself.

    Jensen–Shannon divergence: Lin (1991), IEEE Transactions on Information Theory 37(1).
    """
    heads = len(shares)
    found = np.zeros((2, heads, heads))
    for one in range(heads):
        for other in range(one):
            rows = seen[one] & seen[other]
            divergence = _jensen_shannon(shares[one][rows], shares[other][rows])
            of_both = np.sum(1.0 - divergence / np.log(2.0)), np.sum(rows)
            found[:, one, other] = found[:, other, one] = of_both
    return found


def _jensen_shannon(
    p: Float[np.ndarray, "t s"], q: Float[np.ndarray, "t s"]
) -> Float[np.ndarray, " t"]:
    middle = (p + q) / 2.0

    def divergence(p):
        there = p > 0.0
        ratio = np.where(there, p, 1.0) / np.where(there, middle, 1.0)
        return np.sum(p * np.log(ratio), axis=1)

    return (divergence(p) + divergence(q)) / 2.0


def _from_diagonal(t: int, s: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns each key's distance from the diagonal [t s], and whether it is the nearest to it.

    The diagonal joins the first pair to the last, so that two sequences of different lengths have
    one too. Of two keys that are as near the first is taken.
    """
    places = np.arange(t) * ((s - 1) / (t - 1) if t > 1 else 0.0)
    distance = np.abs(np.arange(s)[None, :] - places[:, None])
    return distance, np.arange(s)[None, :] == np.argmin(distance, axis=1)[:, None]


def _divided(total: np.ndarray, number: np.ndarray) -> np.ndarray:
    return np.where(number > 0, total / np.where(number > 0, number, 1), np.nan)
