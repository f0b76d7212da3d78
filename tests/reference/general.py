"""General attention: arXiv 1508.04025, equation 8."""

from __future__ import annotations

import numpy as np
from reference.exact import Exact


def score(q: np.ndarray, k: np.ndarray, n: int, *, score_matrix: np.ndarray) -> float:
    """qᵀ W k."""
    return q @ score_matrix[n] @ k


def toward_key(q: np.ndarray, n: int, *, score_matrix: np.ndarray) -> np.ndarray:
    """What a key is multiplied by."""
    return q @ score_matrix[n]


EXACT = Exact(score, toward_key=toward_key)
weights, attend = EXACT.weights, EXACT.attend
