"""The mean of the visible values, in float64, one query at a time."""

from __future__ import annotations

import numpy as np


def weights(q: np.ndarray, k: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Returns one over the number of visible keys [b n t s]; zeros where there are none."""
    count = visible.sum(-1, keepdims=True)
    return visible / np.maximum(count, 1)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Returns the means [b t n h]."""
    batch, length, heads, _ = q.shape
    shared_by = heads // v.shape[2]
    result = np.zeros((batch, length, heads, v.shape[3]))
    for b, i, n in np.ndindex(batch, length, heads):
        seen = visible[b, n, i]
        if seen.any():
            result[b, i, n] = v[b, seen, n // shared_by].mean(0)
    return result
