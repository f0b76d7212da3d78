"""Numbers about maps of weights: how sharp, how far, at what, and how alike the heads are.

Each query's row is first made to add up to 1, p_j = |w_j| / Σ|w|, since there are weights below 0
or with another sum. Rows without any weight are left out of the means over queries.
Definitions with their reasons: docs/visualize.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Measures(NamedTuple):
    """Numbers of one head in one example; NaN where one means nothing.

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


def measures(
    values: Float[np.ndarray, "n t s"],
    *,
    punctuation: Bool[np.ndarray, " s"],
    ordered: bool = True,
) -> list[Measures]:
    """Returns the numbers of each head.

    Args:
        values: weights, or norms.
        punctuation: which keys are.
        ordered: whether queries have places that a diagonal can join to keys; a text as a whole
            has none.
    """
    shares, seen = shares_of(values)
    distance, nearest = _from_diagonal(*values.shape[1:])
    columns: dict[str, np.ndarray] = {
        "entropy": -np.sum(shares * np.log(np.where(shares > 0.0, shares, 1.0)), axis=2),
        "distance": np.sum(shares * distance, axis=2),
        "diagonal": np.sum(shares * nearest, axis=2),
        "first": shares[:, :, 0],
        "punctuation": np.sum(shares * punctuation, axis=2),
    }
    agreement = head_agreement(values)
    total = np.asarray(np.sum(values, axis=2, dtype=np.float64))
    found = []
    for head in range(len(values)):
        means = {name: _mean(column[head][seen[head]]) for name, column in columns.items()}
        if not ordered:
            means["distance"] = means["diagonal"] = float("nan")
        effective = float(np.exp(means["entropy"]))
        found.append(
            Measures(
                **means,
                effective_keys=effective,
                agreement=float(agreement[head]),
                total=_mean(total[head]),
            )
        )
    return found


def shares_of(
    values: Float[np.ndarray, "n t s"],
) -> tuple[Float[np.ndarray, "n t s"], Bool[np.ndarray, "n t"]]:
    """Returns |w| / Σ|w| of each row, zeros where it has no weight, and which rows have some."""
    sizes = np.abs(values.astype(np.float64))
    total = np.sum(sizes, axis=2, keepdims=True)
    return sizes / np.where(total > 0.0, total, 1.0), total[:, :, 0] > 0.0


def head_agreement(values: Float[np.ndarray, "n t s"]) -> Float[np.ndarray, " n"]:
    """Returns how alike each head's rows are to those of the others; NaN for a single head.

    Jensen–Shannon divergence: Lin (1991), IEEE Transactions on Information Theory 37(1).
    """
    shares, seen = shares_of(values)
    heads = len(values)
    alike = np.full((heads, heads), np.nan)
    for one in range(heads):
        for other in range(one):
            rows = seen[one] & seen[other]
            divergence = _jensen_shannon(shares[one][rows], shares[other][rows])
            alike[one, other] = alike[other, one] = _mean(1.0 - divergence / np.log(2.0))
    return np.array([_mean(row[~np.isnan(row)]) for row in alike])


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


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if values.size else float("nan")
