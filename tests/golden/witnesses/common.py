"""What all witnesses share: inputs, recording, and the formulas in float64 NumPy.

The formulas are stated here a second time, in a few lines, so that a library whose convention was
misread stops the generator and not a test written much later.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, QUERIES, KEYS, HEADS, KV_HEADS, HEAD_DIM = 2, 3, 5, 4, 2, 6
QUERY = (BATCH, QUERIES, HEADS, HEAD_DIM)
KEY = (BATCH, KEYS, HEADS, HEAD_DIM)
SHARED_KEY = (BATCH, KEYS, KV_HEADS, HEAD_DIM)

Arrays = dict[str, Any]  # NumPy arrays and scalars by their key in a file


def draw(seed: int, **shapes: tuple[int, ...]) -> Arrays:
    """Returns normal arrays with float32 values, so that every library starts from the same."""
    random = np.random.default_rng(seed)
    return {name: random.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def draw_mask(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a mask, True = may attend, that hides no whole row."""
    mask = np.random.default_rng(seed).random(shape) < 0.6
    mask[..., 0] = True
    return mask


def library(*packages: str) -> np.ndarray:
    """Returns "name version" of each package, and of NumPy."""
    return np.array([f"{name} {importlib.metadata.version(name)}" for name in (*packages, "numpy")])


def record(
    case: str, run: Callable[..., Any], given: Arrays, names: str, cotangent: str = "cotangent"
) -> Arrays:
    """Runs torch code in float64 and returns its output and gradients.

    Args:
        case: prefix of the keys.
        run: torch tensors by name → output of the cotangent's shape.
        given: the arrays.
        names: those that `run` takes, separated by spaces.
        cotangent: gradients are those of sum(out · cotangent).
    """
    import torch

    leaves = {name: torch.from_numpy(given[name]).double() for name in names.split()}
    leaves = {name: leaf.requires_grad_() for name, leaf in leaves.items()}
    y = run(**leaves)
    (y * torch.from_numpy(given[cotangent]).double()).sum().backward()
    kept = {f"{case}_out": y.detach().numpy()}
    for name, leaf in leaves.items():
        # A gradient is compared with float32 results: half the bytes are enough.
        kept[f"{case}_grad_{name}"] = leaf.grad.numpy().astype(np.float32)
    if not all(np.isfinite(array).all() for array in kept.values()):
        raise SystemExit(f"{case}: the library's output or gradients are not finite")
    return kept


def compare(case: str, got: Any, expected: Any, tolerance: float = 2e-6) -> None:
    """Prints the largest difference and stops where it is large."""
    difference = float(np.abs(np.asarray(got, np.float64) - expected).max())
    print(f"    {case:24} differs from the formula by {difference:.1e}")
    if not difference < tolerance:
        raise SystemExit(f"{case}: the library computes something else than the formula")


def as64(given: Arrays, names: str) -> list[np.ndarray]:
    """Returns the arrays of these names in float64."""
    return [given[name].astype(np.float64) for name in names.split()]


def causal(queries: int, keys: int) -> np.ndarray:
    """Returns the mask [t s] in which query i sees keys 0 … i."""
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None]


def heads_like(x: np.ndarray, heads: int) -> np.ndarray:
    """Returns x [b s n h]: each of its key heads repeated for the query heads it serves."""
    return np.repeat(x, heads // x.shape[2], axis=2)


def products(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Returns q·k [b n t s]."""
    return np.einsum("btnh,bsnh->bnts", q, heads_like(k, q.shape[2]))


def scaled(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Returns q·k/√h [b n t s]."""
    return products(q, k) / math.sqrt(q.shape[-1])


def softmax(
    e: np.ndarray, visible: np.ndarray | bool = True, sink: np.ndarray | None = None
) -> np.ndarray:
    """Returns exp(e) / (exp(sink) + Σ exp(e)) over the visible keys; sink [n], or no such term."""
    exponentials = np.where(visible, np.exp(e), 0.0)
    extra = 0.0 if sink is None else np.exp(sink)[:, None, None]
    return exponentials / (exponentials.sum(-1, keepdims=True) + extra)


def weigh(weights: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Returns weights · V [b t n h]."""
    return np.einsum("bnts,bsnh->btnh", weights, heads_like(v, weights.shape[1]))


def rms_norm(x: np.ndarray, eps: float) -> np.ndarray:
    """Returns x / √(mean(x²) + eps) over the last axis."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)


def rotate(x: np.ndarray, angles: np.ndarray, interleaved: bool) -> np.ndarray:
    """Turns the pairs of x [b t n h] by angles [t p]; features past the first 2p stay."""
    pairs = angles.shape[1]
    first = np.arange(pairs) * 2 if interleaved else np.arange(pairs)
    second = first + (1 if interleaved else pairs)
    cos, sin = np.cos(angles)[None, :, None, :], np.sin(angles)[None, :, None, :]
    turned = x.copy()
    turned[..., first] = x[..., first] * cos - x[..., second] * sin
    turned[..., second] = x[..., second] * cos + x[..., first] * sin
    return turned
