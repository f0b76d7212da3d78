"""Normalizers from their papers, in float64: one row of visible scores to its weights."""

from __future__ import annotations

import numpy as np


def softmax(row: np.ndarray) -> np.ndarray:
    """exp(e) / Σ exp(e)."""
    exponentials = np.exp(row - row.max())
    return exponentials / exponentials.sum()


def sink(row: np.ndarray, sink: float) -> np.ndarray:
    """arXiv 2508.10925: softmax over the keys and one more score, whose weight is dropped."""
    return softmax(np.append(row, sink))[:-1]


def softmax1(row: np.ndarray) -> np.ndarray:
    """exp(e) / (1 + Σ exp(e)): the score that is dropped is 0."""
    return sink(row, 0.0)


def sparsemax(row: np.ndarray) -> np.ndarray:
    """arXiv 1602.02068, algorithm 1."""
    ordered = np.sort(row)[::-1]
    sums = np.cumsum(ordered)
    k = max(k for k in range(1, len(row) + 1) if 1 + k * ordered[k - 1] > sums[k - 1])
    return np.maximum(row - (sums[k - 1] - 1) / k, 0.0)


def entmax15(row: np.ndarray) -> np.ndarray:
    """arXiv 1905.05702, algorithm 2."""
    halves = (row - row.max()) / 2
    ordered = np.sort(halves)[::-1]
    for k in range(1, len(row) + 1):
        mean = ordered[:k].mean()
        spread = ((ordered[:k] - mean) ** 2).sum()
        threshold = mean - np.sqrt(max(1 - spread, 0.0) / k)
        below = ordered[k] if k < len(row) else -np.inf
        if below <= threshold <= ordered[k - 1]:
            return np.maximum(halves - threshold, 0.0) ** 2
    raise AssertionError("the weights of some k sum to 1")


def entmax(row: np.ndarray, alpha: float) -> np.ndarray:
    """arXiv 1905.05702, equation 11: the threshold that makes the weights sum to 1, by halving."""
    scaled = (alpha - 1) * (row - row.max())

    def weights(threshold: float) -> np.ndarray:
        return np.maximum(scaled - threshold, 0.0) ** (1 / (alpha - 1))

    # At −1 the largest score alone has weight 1; at 0 every weight is 0.
    low, high = -1.0, 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if weights(middle).sum() >= 1 else (low, middle)
    return weights(low)


def sigmoid(row: np.ndarray) -> np.ndarray:
    """arXiv 2409.04431: σ(e − log c), c keys."""
    return np.exp(-np.logaddexp(0.0, np.log(len(row)) - row))


def relu(row: np.ndarray) -> np.ndarray:
    """arXiv 2309.08586: relu(e) / c."""
    return np.maximum(row, 0.0) / len(row)


def relu2(row: np.ndarray) -> np.ndarray:
    """arXiv 2202.10447: relu(e / c)²."""
    return np.maximum(row / len(row), 0.0) ** 2


def sum(row: np.ndarray) -> np.ndarray:
    """relu(e) / Σ relu(e), zeros where that sum is 0."""
    positive = np.maximum(row, 0.0)
    return positive / positive.sum() if positive.any() else positive
