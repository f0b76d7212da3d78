"""A window with gaps: j − i one of −d·left, …, −d, 0, d, …, d·right (arXiv 2004.05150, 3.1)."""

from __future__ import annotations

import numpy as np
from reference.scaled_dot import attend, weights  # noqa: F401

OPTIONS = ("window", "dilation")


def pattern(
    t: int, s: int, *, causal: bool, segment_ids: np.ndarray | None = None, window, dilation: int
) -> np.ndarray:
    """Returns bool [b t s]; segments do not matter to the distance."""
    left, right = (window, window) if isinstance(window, int) else window
    sees = np.zeros((1 if segment_ids is None else len(segment_ids), t, s), bool)
    for b, i in np.ndindex(*sees.shape[:2]):
        for step in range(-left, (0 if causal else right) + 1):
            if 0 <= i + dilation * step < s:
                sees[b, i, i + dilation * step] = True
    return sees
