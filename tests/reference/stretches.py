"""Where the segment of a token begins and ends, for the references of patterns."""

from __future__ import annotations

import numpy as np


def rows(t: int, segment_ids: np.ndarray | None) -> np.ndarray:
    """Returns ids [b t]; one segment a row where there are none."""
    return np.ones((1, t), int) if segment_ids is None else np.asarray(segment_ids)


def stretch(ids: np.ndarray, i: int) -> tuple[int, int]:
    """Returns the first place of the equal ids around place i of a row, and that after the last."""
    start = stop = i
    while start > 0 and ids[start - 1] == ids[i]:
        start -= 1
    while stop < len(ids) and ids[stop] == ids[i]:
        stop += 1
    return start, stop
