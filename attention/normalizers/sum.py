"""ReLU scores divided by their sum: relu(e) / Σ relu(e), zeros where that sum is 0.

The plainest way to weights that sum to 1, without an exponential (the
scores of 2309.08586 with their own sum for the length). O(t·s) time a head; the backward pass keeps
the weights and which scores are positive.

Where all scores are near 0, the smallest change of one of them changes the weights wholly: no bound
on the error of such a query follows from that of the scores.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ()
ONLY_POSITIVE = True  # a score of 0 or less has no weight
# A smaller sum counts as 0: its reciprocal would be infinite, and a TPU reads it as 0 anyway.
SMALLEST = np.finfo(np.float32).tiny


def normalize(
    scores: Float[Array, "b n t s"], visible: Bool[Array, "#b #n #t #s"] | None
) -> Float[Array, "b n t s"]:
    """Returns relu(e) / Σ relu(e) over the visible keys; zeros where the sum is 0.

    Gradients are finite everywhere, and zero for what is not visible and where the sum is 0.
    """
    if visible is not None:
        scores = jnp.where(visible, scores, -jnp.inf)
    return _shares(scores)[0]


@jax.custom_jvp
def _shares(
    scores: Float[Array, "b n t s"],
) -> tuple[Float[Array, "b n t s"], Float[Array, "b n t 1"]]:
    """Returns the weights and one over the sum, 0 where the sum is 0."""
    positive = jax.nn.relu(scores)
    total = jnp.sum(positive, axis=-1, keepdims=True)
    some = total >= SMALLEST
    inverse = jnp.where(some, 1.0 / jnp.where(some, total, 1.0), 0.0)
    return positive * inverse, inverse


@_shares.defjvp
def _shares_jvp(primals, tangents):
    # Without this rule the backward pass would keep the scores beside the weights.
    (scores,), (tangent,) = primals, tangents
    weights, inverse = _shares(scores)
    moved = jnp.where(scores > 0.0, tangent, 0.0) * inverse
    total = jnp.sum(moved, axis=-1, keepdims=True)
    return (weights, inverse), (moved - weights * total, -inverse * total)
