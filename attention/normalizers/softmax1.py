"""Softmax with one more in the denominator: exp(e) / (1 + Σ exp(e)).

No paper; E. Miller, "Attention is off by one", 2023. It is `sink` with every sink fixed at 0: a
head whose scores are all low gives nearly nothing. Costs what softmax costs.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.normalizers import sink
from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ()


def normalize(
    scores: Float[Array, "b n t s"], visible: Bool[Array, "#b #n #t #s"] | None
) -> Float[Array, "b n t s"]:
    """Returns exp(e) / (1 + Σ exp(e)) over the visible keys; zeros where a query sees none.

    Gradients are finite everywhere, and zero for what is not visible.
    """
    return sink.normalize(scores, visible, sink=jnp.zeros(scores.shape[1], jnp.float32))
