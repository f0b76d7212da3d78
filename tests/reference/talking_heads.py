"""Talking-heads attention, arXiv 2003.02436, in float64, one pair of heads at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import exact, positions, scaled_dot


def weights(
    q: np.ndarray,
    k: np.ndarray,
    visible: np.ndarray,
    *,
    pre_mix: np.ndarray,
    post_mix: np.ndarray,
    normalizer: str = "softmax",
    softcap: float | None = None,
    alpha: float = 1.5,
    distance: np.ndarray | None = None,
    bidirectional: bool = True,
    **own: np.ndarray,
) -> np.ndarray:
    """Returns A′ [b n t s]; zeros for a head of a query that sees nothing.

    Hidden keys take part in no row: scores are mixed before the mask, weights after it.
    """
    heads = visible.shape[1]
    mixed = _mix(_scores(q, k, visible.shape, distance, own), pre_mix)
    shares = np.zeros(visible.shape)
    for b, n, i in np.ndindex(*visible.shape[:3]):
        seen = np.flatnonzero(visible[b, n, i])
        if seen.size:
            row = mixed[b, n, i, seen]
            row = row if softcap is None else softcap * np.tanh(row / softcap)
            row = row + exact._bias(own, n, distance, (b, i, seen), bidirectional)
            shares[b, n, i, seen] = exact._normalized(normalizer, row, n, alpha, own)
    result = _mix(shares, post_mix)
    for b, n, i in np.ndindex(visible.shape[0], heads, visible.shape[2]):
        if not visible[b, n, i].any():
            result[b, n, i] = 0.0
    return result


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray, **given: Any
) -> np.ndarray:
    """Returns A′V [b t n h]."""
    return exact.weigh(weights(q, k, visible, **given), v, **given)


def _scores(q, k, shape, distance, own):
    result = np.zeros(shape)
    for b, n, i, j in np.ndindex(*shape):
        key = k[b, j, n // (q.shape[2] // k.shape[2])]
        if "key_table" in own:
            key = key + positions.shaw_rows(distance[b, i, [j]], own["key_table"])[0]
        result[b, n, i, j] = scaled_dot.score(q[b, i, n], key, n)
    return result


def _mix(heads, mix):
    result = np.zeros_like(heads)
    for out, into in np.ndindex(*mix.shape):
        result[:, out] += mix[out, into] * heads[:, into]
    return result
