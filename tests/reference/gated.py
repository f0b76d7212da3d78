"""Gated attention, arXiv 2505.06708, in float64: the gate after the weighted sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference import scaled_dot

OWN = {"gate": "b t n h"}


def weights(q: np.ndarray, k: np.ndarray, visible: np.ndarray, *, gate=None, **given: Any):
    """Returns the weights before the gate [b n t s]."""
    return scaled_dot.weights(q, k, visible, **given)


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    visible: np.ndarray,
    *,
    gate: np.ndarray,
    **given: Any,
) -> np.ndarray:
    """Returns gate ⊙ AV [b t n h]."""
    return gate * scaled_dot.attend(q, k, v, visible, **given)
