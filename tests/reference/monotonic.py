"""Monotonic attention: arXiv 1704.00784, algorithm 1 and its expectation, as sums over paths."""

from __future__ import annotations

import numpy as np
from reference import alignment
from reference.exact import weigh

OPTIONS = ("test_mode",)
IN_ORDER = True
OWN = {"score_vector": "n h", "score_gain": "n", "score_offset": "n"}


def over_paths(before: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Returns how likely each key is to be stopped at, path by path.

    A path starts at key l with probability before[l], does not stop at l … j − 1, and stops at j.
    """
    result = np.zeros(len(p))
    for start in range(len(p)):
        for stop in range(start, len(p)):
            passed = np.prod([1.0 - p[m] for m in range(start, stop)])
            result[stop] += before[start] * passed * p[stop]
    return result


def weights(
    q,
    k,
    visible,
    *,
    score_vector,
    score_gain,
    score_offset,
    test_mode="soft",
    segment_ids=None,
    previous=None,
):
    """Returns the weights [b n t s]."""

    def row(query, keys, before, seen, n):
        u = score_vector[n] / np.sqrt(np.sum(score_vector[n] ** 2))
        energy = score_gain[n] * (np.tanh(query + keys) @ u) + score_offset[n]
        p = 1.0 / (1.0 + np.exp(-energy)) if test_mode == "soft" else (energy > 0).astype(float)
        return over_paths(before, np.where(seen, p, 0.0))

    return alignment.weights(
        *(q, k, visible, row),
        first=lambda s: np.eye(1, s)[0],
        following=lambda before, now: now,
        segment_ids=segment_ids,
        previous=previous,
    )


def attend(q, k, v, visible, **given):
    """Returns the weighted sums of the values [b t n h]."""
    return weigh(weights(q, k, visible, **given), v)
