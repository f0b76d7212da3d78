"""Sparse Transformer, strided (arXiv 1904.10509, section 4.3), both heads' keys together."""

from __future__ import annotations

import numpy as np
from reference.scaled_dot import attend, weights  # noqa: F401

OPTIONS = ("stride",)


def pattern(
    t: int, s: int, *, causal: bool, segment_ids: np.ndarray | None = None, stride: int
) -> np.ndarray:
    """Returns bool [b t s]: i − j < ℓ or (i − j) mod ℓ = 0."""
    sees = np.zeros((1 if segment_ids is None else len(segment_ids), t, s), bool)
    for b, i, j in np.ndindex(*sees.shape):
        if j <= i or not causal:
            sees[b, i, j] = abs(i - j) < stride or abs(i - j) % stride == 0
    return sees
