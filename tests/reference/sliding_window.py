"""A window: query i sees key j iff −left ≤ j − i ≤ right (arXiv 2004.05150, section 3.1)."""

from __future__ import annotations

import numpy as np
from reference.scaled_dot import attend, weights  # noqa: F401

OPTIONS = ("window",)


def pattern(
    t: int, s: int, *, causal: bool, segment_ids: np.ndarray | None = None, window
) -> np.ndarray:
    """Returns bool [b t s]; segments do not matter to what is near."""
    left, right = (window, window) if isinstance(window, int) else window
    sees = np.zeros((1 if segment_ids is None else len(segment_ids), t, s), bool)
    for b, i, j in np.ndindex(*sees.shape):
        sees[b, i, j] = -left <= j - i <= (0 if causal else right)
    return sees
