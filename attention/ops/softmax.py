"""Softmax over what is visible, along the last axis."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def masked_softmax(
    scores: Float[Array, "*b s"], visible: Bool[Array, "*#b s"]
) -> Float[Array, "*b s"]:
    """Returns exp(e) / Σ exp(e) over the visible keys; zeros, without a slope, where none is."""
    # −inf − −inf is NaN: a row without a visible key is shifted by 0 and sums to 0.
    lowest = jnp.where(visible, scores, -jnp.inf)
    largest = jax.lax.stop_gradient(jnp.max(lowest, axis=-1, keepdims=True))
    largest = jnp.where(largest == -jnp.inf, 0.0, largest)
    exponentials = jnp.where(visible, jnp.exp(jnp.where(visible, scores - largest, 0.0)), 0.0)
    total = jnp.sum(exponentials, axis=-1, keepdims=True)
    return exponentials / jnp.where(total == 0.0, 1.0, total)
