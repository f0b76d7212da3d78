"""Softmax over the visible keys: exp(e) / Σ exp(e) (Vaswani et al. 2017, arXiv 1706.03762).

O(t·s) time a head; the backward pass keeps the weights and nothing else.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ()


def normalize(
    scores: Float[Array, "b n t s"], visible: Bool[Array, "#b #n #t #s"] | None
) -> Float[Array, "b n t s"]:
    """Returns exp(e) / Σ exp(e) over the visible keys; zeros where a query sees none.

    Gradients are finite everywhere, and zero for what is not visible.
    """
    if visible is None:
        return _softmax(scores, False)
    return _softmax(jnp.where(visible, scores, -jnp.inf), True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _softmax(scores: Float[Array, "b n t s"], may_hide_all: bool) -> Float[Array, "b n t s"]:
    largest = jnp.max(scores, axis=-1, keepdims=True)
    if may_hide_all:
        # −inf − −inf is NaN: a row without a visible key is shifted by 0 and sums to 0.
        largest = jnp.where(largest == -jnp.inf, 0.0, largest)
    exponentials = jnp.exp(scores - largest)
    total = jnp.sum(exponentials, axis=-1, keepdims=True)
    return exponentials / (jnp.where(total == 0.0, 1.0, total) if may_hide_all else total)


@_softmax.defjvp
def _softmax_jvp(may_hide_all: bool, primals, tangents):
    # From the weights alone: nothing else is kept for the backward pass, and the −inf of a hidden
    # key never enters a product.
    weights = _softmax(*primals, may_hide_all)
    weighted = weights * tangents[0]
    return weights, weighted - weights * jnp.sum(weighted, axis=-1, keepdims=True)
