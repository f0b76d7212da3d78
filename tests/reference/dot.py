"""Dot-product attention: arXiv 1508.04025, equation 8."""

from __future__ import annotations

import numpy as np
from reference.exact import Exact


def score(q: np.ndarray, k: np.ndarray, n: int) -> float:
    """q·k."""
    return q @ k


def toward_key(q: np.ndarray, n: int) -> np.ndarray:
    """What a key is multiplied by."""
    return q


EXACT = Exact(score, toward_key=toward_key)
weights, attend = EXACT.weights, EXACT.attend
