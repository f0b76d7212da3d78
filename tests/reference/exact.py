"""Exact attention in float64, one query at a time, for any score of one query and one key."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from reference import normalizers, positions


class Exact(NamedTuple):
    """A mechanism stated by its score (query [h], key [h], head number, **own) → number.

    Attributes:
        score: see above.
        normalizer: its name in `reference.normalizers`, unless a call says another.
        toward_key: (query [h], head number, **own) → what Shaw's key vectors are multiplied by.
    """

    score: Callable[..., float]
    normalizer: str = "softmax"
    toward_key: Callable[..., np.ndarray] = lambda q, n, **own: q / math.sqrt(len(q))

    def weights(
        self,
        q: np.ndarray,
        k: np.ndarray,
        visible: np.ndarray,
        *,
        normalizer: str | None = None,
        softcap: float | None = None,
        distance: np.ndarray | None = None,
        bidirectional: bool = True,
        alpha: float = 1.5,
        **own: np.ndarray,
    ) -> np.ndarray:
        """Returns the weights [b n t s] over the visible keys; zeros where there are none.

        `distance` [b t s] and the position arrays among `own` give the position terms.
        """
        result = np.zeros(visible.shape, np.float64)
        shared_by = q.shape[2] // k.shape[2]
        normalize = normalizer or self.normalizer
        for b, n, i in np.ndindex(*visible.shape[:3]):
            seen = np.flatnonzero(visible[b, n, i])
            if not seen.size:
                continue
            row = np.array([self._score(q[b, i, n], k[b, j, n // shared_by], n, own) for j in seen])
            if "key_table" in own:
                toward = self.toward_key(q[b, i, n], n, **_without_positions(own))
                row += positions.shaw_rows(distance[b, i, seen], own["key_table"]) @ toward
            if softcap is not None:
                row = softcap * np.tanh(row / softcap)
            row = row + _bias(own, n, distance, (b, i, seen), bidirectional)
            result[b, n, i, seen] = _normalized(normalize, row, n, alpha, own)
        return result

    def attend(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray, **given: Any
    ) -> np.ndarray:
        """Returns the weighted sums of the values [b t n h]."""
        return weigh(self.weights(q, k, visible, **given), v, **given)

    def _score(self, q, k, n, own):
        return self.score(q, k, n, **_without_positions(own))


def weigh(weights: np.ndarray, v: np.ndarray, *, distance=None, value_table=None, **_):
    """Returns Σ weight · value, with Shaw's value vectors where there are any."""
    heads = weights.shape[1]
    shared_by = heads // v.shape[2]
    values = np.stack([v[:, :, n // shared_by] for n in range(heads)], axis=2)
    out = np.einsum("bnts,bsnh->btnh", weights, values)
    if value_table is None:
        return out
    return out + np.einsum("bnts,btsh->btnh", weights, positions.shaw_rows(distance, value_table))


_OF_POSITIONS = ("slopes", "bias_table", "key_table", "value_table", "sink")


def _without_positions(own):
    return {name: array for name, array in own.items() if name not in _OF_POSITIONS}


def _bias(own, n, distance, at, bidirectional):
    b, i, seen = at
    if "slopes" in own:
        return -own["slopes"][n] * np.abs(distance[b, i, seen])
    if "bias_table" in own:
        table = own["bias_table"]
        settings = {"num_buckets": len(table), "max_distance": 128, "bidirectional": bidirectional}
        buckets = [positions.t5_bucket(int(d), **settings) for d in distance[b, i, seen]]
        return table[buckets, n]
    return 0.0


def _normalized(name, row, n, alpha, own):
    if name == "sink":
        return normalizers.sink(row, own["sink"][n])
    if name == "entmax":
        return normalizers.entmax(row, alpha)
    return getattr(normalizers, name)(row)
