"""What a confusion matrix says of a classifier."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def confusion_matrix(
    labels: Int[np.ndarray, " n"], predicted: Int[np.ndarray, " n"], num_classes: int
) -> Int[np.ndarray, "c c"]:
    """Returns how often each class (row) was taken for each (column)."""
    pairs = labels.astype(np.int64) * num_classes + predicted
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def macro_f1(matrix: Int[np.ndarray, "c c"]) -> float:
    """Returns the mean over classes of F1 = 2·hits / (labelled + predicted).

    A class that neither occurs nor is predicted has no F1 and is left out of the mean.
    """
    hits = np.diag(matrix)
    sizes = matrix.sum(axis=0) + matrix.sum(axis=1)
    there = sizes > 0
    return float(np.mean(2 * hits[there] / sizes[there])) if there.any() else 0.0
