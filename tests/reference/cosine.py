"""Cosine attention: arXiv 2010.04245."""

from __future__ import annotations

import numpy as np
from reference.exact import Exact


def score(q: np.ndarray, k: np.ndarray, n: int, *, temperature: np.ndarray) -> float:
    """τ · cos(q, k)."""
    return temperature[n] * (q @ k) / np.sqrt((q @ q) * (k @ k))


def toward_key(q: np.ndarray, n: int, *, temperature: np.ndarray) -> np.ndarray:
    """What a key of length 1 is multiplied by."""
    return temperature[n] * q / np.sqrt(q @ q)


EXACT = Exact(score, toward_key=toward_key)
weights, attend = EXACT.weights, EXACT.attend
