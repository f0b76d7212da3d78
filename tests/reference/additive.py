"""Additive attention: arXiv 1409.0473, appendix A.1.2."""

from __future__ import annotations

import numpy as np
from reference.exact import Exact


def score(q: np.ndarray, k: np.ndarray, n: int, *, score_vector: np.ndarray) -> float:
    """uᵀ tanh(q + k)."""
    return score_vector[n] @ np.tanh(q + k)


EXACT = Exact(score)
weights, attend = EXACT.weights, EXACT.attend
