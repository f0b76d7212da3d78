"""Sparse Transformer, fixed (arXiv 1904.10509, section 4.3), both heads' keys together."""

from __future__ import annotations

import numpy as np
from reference.scaled_dot import attend, weights  # noqa: F401
from reference.stretches import rows, stretch

OPTIONS = ("stride", "summary")


def pattern(
    t: int,
    s: int,
    *,
    causal: bool,
    segment_ids: np.ndarray | None = None,
    stride: int,
    summary: int,
) -> np.ndarray:
    """Returns bool [b t s]: ⌊j/ℓ⌋ = ⌊i/ℓ⌋ or j mod ℓ ≥ ℓ − c, i and j counted in their segment."""
    ids = rows(s, segment_ids)
    sees = np.zeros((len(ids), t, s), bool)
    for b, query in np.ndindex(len(ids), t):
        start, stop = stretch(ids[b], query)
        for key in range(start, min(stop, query + 1) if causal else stop):
            i, j = query - start, key - start
            sees[b, query, key] = j // stride == i // stride or j % stride >= stride - summary
    return sees
