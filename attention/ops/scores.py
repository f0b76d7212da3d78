"""Scores: how well a query fits a key. Always float32, whatever the activations are."""

import math

from jaxtyping import Array, Float

from attention.ops.products import grouped_scores


def scaled_dot(q: Float[Array, "b t n h"], k: Float[Array, "b s k h"]) -> Float[Array, "b n t s"]:
    """Returns q·k / √h (Vaswani et al. 2017, equation 1).

    Each key head serves the n/k query heads that follow each other (repeat order 0, 0, 1, 1).
    """
    b, t, n, h = q.shape
    s, groups = k.shape[1], k.shape[2]
    # The heads of one group share their keys in the product itself: no key is copied.
    grouped = q.reshape(b, t, groups, n // groups, h)
    scores = grouped_scores(grouped, k)
    # The scale multiplies the float32 product: scaling bfloat16 queries would round them again.
    return scores.reshape(b, n, t, s) * (1.0 / math.sqrt(h))
