"""Differential attention, arXiv 2410.05258, in float64: two maps of a pair, values joined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference import exact, scaled_dot


def weights(
    q: np.ndarray, k: np.ndarray, visible: np.ndarray, *, lam: np.ndarray, **given: Any
) -> np.ndarray:
    """Returns A₁ − λA₂ [b n t s] for both heads of a pair; zeros where a head sees nothing."""
    maps = scaled_dot.weights(q, k, visible, **given)
    result = np.zeros_like(maps)
    for n in range(maps.shape[1]):
        pair = n // 2
        result[:, n] = maps[:, 2 * pair] - lam[pair] * maps[:, 2 * pair + 1]
    return np.where(visible.any(-1, keepdims=True), result, 0.0)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray, **given: Any
) -> np.ndarray:
    """Returns the pairs' results, split back to heads [b t n h]."""
    return exact.weigh(weights(q, k, visible, **given), v, **given)


def joined(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, visible: np.ndarray, *, lam: np.ndarray
) -> np.ndarray:
    """Returns (A₁ − λA₂)[V₁ V₂] [b t n/2 2h] as the paper has it: a pair's values joined.

    `k` and `v` have as many heads as `q`, and `visible` is the same for both heads of a pair.
    """
    maps = scaled_dot.weights(q, k, visible)
    pairs = []
    for i in range(q.shape[2] // 2):
        value = np.concatenate([v[:, :, 2 * i], v[:, :, 2 * i + 1]], axis=-1)
        pairs.append((maps[:, 2 * i] - lam[i] * maps[:, 2 * i + 1]) @ value)
    return np.stack(pairs, axis=2)


def forward(
    layer_state: dict[str, np.ndarray],
    x: np.ndarray,
    *,
    segment_ids: np.ndarray,
    causal: bool,
    num_heads: int = 4,
    layer_index: int = 0,
) -> np.ndarray:
    """Returns the layer's output [b t d]; λ₀ = 0.8 − 0.6·exp(−0.3·layer_index)."""
    state = layer_state
    b, t, _ = x.shape
    q, k, v = (
        (x @ state[f"{name}.kernel"] + state[f"{name}.bias"]).reshape(b, t, num_heads, -1)
        for name in ("query", "key", "value")
    )
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    visible = same & (segment_ids != 0)[:, :, None]
    if causal:
        visible = visible & np.tri(t, dtype=bool)[None]
    visible = np.repeat(visible[:, None], num_heads, axis=1)
    initial = 0.8 - 0.6 * math.exp(-0.3 * layer_index)
    first = math.exp(state["lambda_q1"] @ state["lambda_k1"])
    second = math.exp(state["lambda_q2"] @ state["lambda_k2"])
    lam = np.full(num_heads // 2, first - second + initial)
    pairs = joined(q, k, v, visible, lam=lam)
    size = np.sqrt((pairs**2).mean(-1, keepdims=True) + 1e-5)
    pairs = pairs / size * state["norm.gain"] * (1 - initial)
    return pairs.reshape(b, t, -1) @ state["out.kernel"] + state["out.bias"]
