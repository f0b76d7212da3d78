"""What a query hands on to the next, one row, one head and one query at a time, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def weights(
    q: np.ndarray,
    k: np.ndarray,
    visible: np.ndarray,
    row: Callable[..., np.ndarray],
    *,
    first: Callable[[int], np.ndarray],
    following: Callable[[np.ndarray, np.ndarray], np.ndarray],
    segment_ids: np.ndarray | None = None,
    previous: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the weights [b n t s].

    Args:
        q, k: queries [b t n h], keys [b s k h].
        visible: bool [b n t s].
        row: (query [h], keys [s h], alignment [s], visible [s], head number) → weights [s].
        first: (number of keys) → the alignment that a segment starts from.
        following: (alignment, weights) → the next alignment.
        segment_ids: of the queries.
        previous: the alignment [b n s] before the first query.
    """
    result = np.zeros(visible.shape)
    shared_by = q.shape[2] // k.shape[2]
    for b, n in np.ndindex(*visible.shape[:2]):
        start = first(k.shape[1])
        alignment, last_id = start if previous is None else previous[b, n], 0
        for i in range(q.shape[1]):
            if segment_ids is not None and segment_ids[b, i] != 0:
                if last_id not in (0, segment_ids[b, i]):
                    alignment = start
                last_id = segment_ids[b, i]
            seen = visible[b, n, i]
            if not seen.any():
                continue
            keys = k[b, :, n // shared_by]
            result[b, n, i] = row(q[b, i, n], keys, alignment, seen, n)
            alignment = following(alignment, result[b, n, i])
    return result
