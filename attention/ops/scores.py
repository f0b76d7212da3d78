"""Scores: how well a query fits a key. Always float32, whatever the activations are."""

import math

from jaxtyping import Array, Float

from attention.ops.heads import fold_groups
from attention.ops.products import score_product


def scaled_dot(q: Float[Array, "b t n h"], k: Float[Array, "b s k h"]) -> Float[Array, "b n t s"]:
    """Returns q·k / √h (Vaswani et al. 2017, equation 1)."""
    b, t, n, h = q.shape
    scores = score_product(fold_groups(q, k.shape[2]), k).reshape(b, n, t, -1)
    # The scale multiplies the float32 product: scaling bfloat16 queries would round them again.
    return scores * (1.0 / math.sqrt(h))
