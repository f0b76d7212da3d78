"""Multi-head latent attention, arXiv 2405.04434 section 2.1, in float64, one query at a time."""

from __future__ import annotations

import numpy as np
from reference import scaled_dot


def forward(
    layer_state: dict[str, np.ndarray],
    x: np.ndarray,
    *,
    segment_ids: np.ndarray,
    causal: bool,
    num_heads: int = 4,
    position: str | None = None,
    layout: str = "half",
) -> np.ndarray:
    """Returns the layer's output [b t d]; position is None or "rope", with base 10000."""
    state = layer_state
    b, t, _ = x.shape
    c = _rms_norm(x @ state["latent.kernel"]) * state["latent_norm.gain"]
    through = x
    if "query_latent.kernel" in state:
        through = _rms_norm(x @ state["query_latent.kernel"]) * state["query_latent_norm.gain"]
    q = (through @ state["query.kernel"]).reshape(b, t, num_heads, -1)
    bare = (c @ state["key.kernel"]).reshape(b, t, num_heads, -1)
    v = (c @ state["value.kernel"]).reshape(b, t, num_heads, -1)
    shared = x @ state["rope_key.kernel"]
    h, p = bare.shape[3], shared.shape[2]
    k = np.zeros((b, t, num_heads, h + p))
    visible = np.zeros((b, num_heads, t, t), bool)
    for row, i in np.ndindex(b, t):
        at = i - int(np.flatnonzero(segment_ids[row] == segment_ids[row, i])[0])
        turn = _rotation(at, p, layout) if position == "rope" else np.eye(p)
        for n in range(num_heads):
            q[row, i, n, h:] = turn @ q[row, i, n, h:]
            k[row, i, n] = np.concatenate([bare[row, i, n], turn @ shared[row, i]])
        for j in range(i + 1 if causal else t):
            same = segment_ids[row, i] == segment_ids[row, j] != 0
            visible[row, :, i, j] = same
    heads = scaled_dot.attend(q, k, v, visible)
    return heads.reshape(b, t, -1) @ state["out.kernel"] + state["out.bias"]


def _rms_norm(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def _rotation(at: int, size: int, layout: str) -> np.ndarray:
    """Returns the matrix [p p] that turns pair i by at · 10000^(−2i/p)."""
    turn = np.zeros((size, size))
    for i in range(size // 2):
        first, second = (i, i + size // 2) if layout == "half" else (2 * i, 2 * i + 1)
        angle = at * 10000.0 ** (-2 * i / size)
        turn[first, first] = turn[second, second] = np.cos(angle)
        turn[first, second], turn[second, first] = -np.sin(angle), np.sin(angle)
    return turn
