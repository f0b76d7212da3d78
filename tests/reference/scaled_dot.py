"""Scaled dot-product attention from the paper's equation 1, in float64, one query at a time."""

from __future__ import annotations

import math

import numpy as np


def weights(q: np.ndarray, k: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Returns softmax(q·k/√h) [b n t s] over the visible keys; zeros where there are none."""
    batch, length, heads, size = q.shape
    shared_by = heads // k.shape[2]
    result = np.zeros(visible.shape, np.float64)
    for b, n, i in np.ndindex(batch, heads, length):
        seen = np.flatnonzero(visible[b, n, i])
        if seen.size:
            scores = k[b, seen, n // shared_by] @ q[b, i, n] / math.sqrt(size)
            exponentials = np.exp(scores - scores.max())
            result[b, n, i, seen] = exponentials / exponentials.sum()
    return result


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Returns the weighted sums of the values [b t n h]."""
    shared_by = q.shape[2] // v.shape[2]
    values = np.stack([v[:, :, n // shared_by] for n in range(q.shape[2])], axis=2)
    return np.einsum("bnts,bsnh->btnh", weights(q, k, visible), values)
