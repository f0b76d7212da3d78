"""Sigmoid attention: σ(e − log c), c the number of keys the query sees (arXiv 2409.04431).

Each weight is on its own; −log c makes them sum to about 1 where the scores are near 0. The paper
takes the length of the sequence for c; here padding and hidden keys do not count. O(t·s) time a
head, without a maximum or a sum over the scores.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ()


def normalize(
    scores: Float[Array, "b n t s"], visible: Bool[Array, "#b #n #t #s"] | None
) -> Float[Array, "b n t s"]:
    """Returns σ(e − log c) of the visible keys; zeros where a query sees none.

    Gradients are finite everywhere, and zero for what is not visible.
    """
    shift = jnp.log(visible_keys(visible, scores.shape[-1]))
    if visible is not None:
        scores = jnp.where(visible, scores, -jnp.inf)
    return jax.nn.sigmoid(scores - shift)


def visible_keys(
    visible: Bool[Array, "#b #n #t #s"] | None, length: int
) -> Float[Array, "#b #n #t 1"]:
    """Returns how many of `length` keys each query sees, at least 1 so that it may divide."""
    if visible is None:
        return jnp.full((1, 1, 1, 1), max(length, 1), jnp.float32)
    count = jnp.sum(visible, axis=-1, keepdims=True, dtype=jnp.float32)
    if visible.shape[-1] == 1:  # one value for all keys
        count = count * length
    return jnp.maximum(count, 1.0)
