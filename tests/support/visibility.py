"""Who sees whom, one pair at a time: the definition, for the references to stand on."""

from __future__ import annotations

import numpy as np


def visible_pairs(
    shape: tuple[int, int, int, int],
    *,
    mask=None,
    causal: bool = False,
    query_offset=None,
    segment_ids=None,
    key_segment_ids=None,
) -> np.ndarray:
    """Returns bool [b n t s] for scores of this shape, by looping over every pair."""
    sees = np.ones(shape, bool)
    offsets = np.broadcast_to(0 if query_offset is None else query_offset, shape[:1])
    keys = segment_ids if key_segment_ids is None else key_segment_ids
    full_mask = None if mask is None else np.broadcast_to(mask, shape)
    for b, n, i, j in np.ndindex(*shape):
        if full_mask is not None and not full_mask[b, n, i, j]:
            sees[b, n, i, j] = False
        if causal and j > i + offsets[b]:
            sees[b, n, i, j] = False
        if segment_ids is not None:
            same = segment_ids[b, i] == keys[b, j]
            if not same or segment_ids[b, i] == 0:
                sees[b, n, i, j] = False
    return sees


def window_pairs(
    t: int, s: int, *, left: int, right: int, dilation: int = 1, query_offset=None, causal=False
) -> np.ndarray:
    """Returns bool [#b 1 t s]: j − i in −d·left … d·right, in steps of d; causal: none ahead."""
    offsets = np.atleast_1d(0 if query_offset is None else query_offset)
    sees = np.zeros((len(offsets), 1, t, s), bool)
    for b, i, j in np.ndindex(len(offsets), t, s):
        steps, rest = divmod(j - i - int(offsets[b]), dilation)
        sees[b, 0, i, j] = rest == 0 and -left <= steps <= (0 if causal else right)
    return sees
