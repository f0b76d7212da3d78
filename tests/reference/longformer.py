"""Longformer (arXiv 2004.05150, section 3.1): a window, and global tokens, seeing and seen."""

from __future__ import annotations

import numpy as np
from reference import scaled_dot
from reference.scaled_dot import weights  # noqa: F401
from reference.stretches import rows, stretch

OPTIONS = ("window",)


def global_tokens(t: int, segment_ids: np.ndarray | None) -> np.ndarray:
    """Returns bool [b t]: the first token of each segment."""
    ids = rows(t, segment_ids)
    first = [[stretch(row, i)[0] == i and row[i] != 0 for i in range(t)] for row in ids]
    return np.array(first)


def pattern(
    t: int,
    s: int,
    *,
    causal: bool,
    segment_ids: np.ndarray | None = None,
    window,
    global_mask: np.ndarray | None = None,
) -> np.ndarray:
    """Returns bool [b t s]: j in the window of i, or i or j global and in the same segment."""
    left, right = (window, window) if isinstance(window, int) else window
    ids = rows(s, segment_ids)
    is_global = global_tokens(s, segment_ids) if global_mask is None else global_mask
    sees = np.zeros((max(len(ids), len(is_global)), t, s), bool)
    ids, is_global = (np.broadcast_to(x, (len(sees), s)) for x in (ids, is_global))
    for b, i in np.ndindex(len(sees), t):
        start, stop = stretch(ids[b], i)
        for j in range(i + 1 if causal else s):
            near = -left <= j - i <= right
            far = (is_global[b, i] or is_global[b, j]) and start <= j < stop
            sees[b, i, j] = near or far
    return sees


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    visible: np.ndarray,
    *,
    is_global: np.ndarray | None = None,
    global_q: np.ndarray | None = None,
    global_k: np.ndarray | None = None,
    global_v: np.ndarray | None = None,
    **given,
) -> np.ndarray:
    """Returns the weighted sums; with global arrays, the rows of global tokens [b t] by those."""
    out = scaled_dot.attend(q, k, v, visible, **given)
    if global_q is None:
        return out
    by_global = scaled_dot.attend(global_q, global_k, global_v, visible, **given)
    return np.where(is_global[:, :, None, None], by_global, out)
