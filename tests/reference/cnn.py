"""A gated convolution in float64, one position and one neighbour at a time."""

from __future__ import annotations

import numpy as np


def forward(
    layer_state: dict[str, np.ndarray],
    x: np.ndarray,
    *,
    segment_ids: np.ndarray,
    causal: bool,
    visible: np.ndarray | None = None,
    width: int = 5,
) -> np.ndarray:
    """Returns the layer's output [b t d]; `visible` [b t] is False where a mask hides."""
    batch, length, dim = x.shape
    kernel = layer_state["taps.kernel"].reshape(width, dim, -1)
    features = kernel.shape[2] // 2
    first = -(width - 1) if causal else -(width // 2)
    result = np.zeros_like(x)
    for b, i in np.ndindex(batch, length):
        mixed = np.zeros(features)
        if segment_ids[b, i] != 0:
            both = layer_state["taps.bias"].copy()
            for tap in range(width):
                j = i + first + tap
                if not 0 <= j < length or segment_ids[b, j] != segment_ids[b, i]:
                    continue
                if visible is None or visible[b, j]:
                    both += x[b, j] @ kernel[tap]
            mixed = both[:features] / (1.0 + np.exp(-both[features:]))
        result[b, i] = mixed @ layer_state["out.kernel"] + layer_state["out.bias"]
    return result
