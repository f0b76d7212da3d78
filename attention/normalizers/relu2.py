"""Squared ReLU attention: relu(e / c)², c the number of keys the query sees (arXiv 2202.10447).

The square is over the quotient, so that c² divides; other code divides relu(e)² once. The paper
takes the length of the sequence for c; here padding and hidden keys do not count. O(t·s) time a
head; the backward pass keeps relu(e / c).
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.normalizers import relu
from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ()
ONLY_POSITIVE = True  # a score of 0 or less has no weight


def normalize(
    scores: Float[Array, "b n t s"], visible: Bool[Array, "#b #n #t #s"] | None
) -> Float[Array, "b n t s"]:
    """Returns relu(e / c)² of the visible keys; zeros where a query sees none.

    Gradients are finite everywhere, and zero for what is not visible.
    """
    return jnp.square(relu.normalize(scores, visible))
