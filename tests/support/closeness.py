"""How close two results must be."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_close(got: Any, want: Any, bound: float) -> None:
    """Fails where an error exceeds `bound` times the largest value, or times 1 where all are small.

    Weights that need not sum to 1, those of relu2, can be of any size.
    """
    largest = max(1.0, float(np.max(np.abs(want), initial=0.0)))
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * largest)
