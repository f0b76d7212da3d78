"""Softmax with a learned sink per head: exp(e) / (exp(sink) + Σ exp(e)) (arXiv 2508.10925).

The sink takes part of the weight and has no value, so that a head can attend to nothing much. It
starts at 0, which is `softmax1`; −inf would be `softmax`. Costs what softmax costs.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = (OwnArray("sink", "n", jax.nn.initializers.zeros),)
OPTIONS: tuple[str, ...] = ()


def normalize(
    scores: Float[Array, "b n t s"],
    visible: Bool[Array, "#b #n #t #s"] | None,
    *,
    sink: Float[Array, " n"],
) -> Float[Array, "b n t s"]:
    """Returns exp(e) / (exp(sink) + Σ exp(e)) over the visible keys.

    Gradients are finite everywhere, and zero for what is not visible; a query that sees no key has
    zeros, and leaves the sink alone.
    """
    if visible is not None:
        scores = jnp.where(visible, scores, -jnp.inf)
    return _softmax(scores, sink.astype(jnp.float32)[None, :, None, None])[0]


@jax.custom_jvp
def _softmax(
    scores: Float[Array, "b n t s"], sink: Float[Array, "1 n 1 1"]
) -> tuple[Float[Array, "b n t s"], Float[Array, "b n t 1"]]:
    """Returns the weights of the keys and the weight of the sink."""
    # The maximum includes the sink: below a large sink, exp(sink − max e) would overflow.
    largest = jnp.maximum(jnp.max(scores, axis=-1, keepdims=True), sink)
    # −inf − −inf is NaN: a row without a visible key or a sink is shifted by 0 and sums to 0.
    largest = jnp.where(largest == -jnp.inf, 0.0, largest)
    exponentials, swallowed = jnp.exp(scores - largest), jnp.exp(sink - largest)
    total = jnp.sum(exponentials, axis=-1, keepdims=True) + swallowed
    total = jnp.where(total == 0.0, 1.0, total)
    return exponentials / total, swallowed / total


@_softmax.defjvp
def _softmax_jvp(primals, tangents):
    # From the weights alone, as in `softmax`; the sink is one more key of which no value is read.
    weights, swallowed = _softmax(*primals)
    weighted, sink_weighted = weights * tangents[0], swallowed * tangents[1]
    total = jnp.sum(weighted, axis=-1, keepdims=True) + sink_weighted
    return (weights, swallowed), (weighted - weights * total, sink_weighted - swallowed * total)
