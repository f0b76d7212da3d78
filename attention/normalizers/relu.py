"""ReLU attention: relu(e) / c, c the number of keys the query sees (arXiv 2309.08586).

The paper divides by the length of the sequence; here padding and hidden keys do not count. O(t·s)
time a head; the backward pass keeps which scores are positive.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.normalizers.sigmoid import visible_keys
from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ()
ONLY_POSITIVE = True  # a score of 0 or less has no weight


def normalize(
    scores: Float[Array, "b n t s"], visible: Bool[Array, "#b #n #t #s"] | None
) -> Float[Array, "b n t s"]:
    """Returns relu(e) / c of the visible keys; zeros where a query sees none.

    Gradients are finite everywhere, and zero for what is not visible.
    """
    count = visible_keys(visible, scores.shape[-1])
    if visible is not None:
        scores = jnp.where(visible, scores, -jnp.inf)
    return jax.nn.relu(scores) / count
