"""The additive score, u · tanh(q + k), without an array of length² × head size.

Each number of the score is a sum over the head, which compilers fuse with the tanh; the backward
pass computes the tanh again, one feature of the head after the other.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def score(
    q: Float[Array, "b t n h"], k: Float[Array, "b s k h"], score_vector: Float[Array, "n h"]
) -> Float[Array, "b n t s"]:
    """Returns uᵀ tanh(q + k), u for each query head (Bahdanau et al. 2014, arXiv 1409.0473)."""
    return _score(q, k, score_vector)  # a function of its own: the other cannot be pickled


@jax.custom_vjp
def _score(q, k, score_vector):
    q, k, u = _head_first(q, k, score_vector)
    hidden = jnp.tanh(q[:, :, :, None, :] + k[:, :, None, :, :])
    return jnp.sum(u[None, :, None, None, :] * hidden, axis=-1)


def _head_first(q, k, u):
    """To [b n t h] and [b n s h] in float32, a key head for each query head."""
    k = jnp.repeat(k, q.shape[2] // k.shape[2], axis=2)
    q, k = (jnp.transpose(x.astype(jnp.float32), (0, 2, 1, 3)) for x in (q, k))
    return q, k, u.astype(jnp.float32)


def _forward(q, k, score_vector):
    return _score(q, k, score_vector), (q, k, score_vector)


def _backward(kept, gradient: Float[Array, "b n t s"]):
    q, k, u = _head_first(*kept)

    def of_feature(feature):
        q, k = feature  # [b n t] and [b n s]
        hidden = jnp.tanh(q[:, :, :, None] + k[:, :, None, :])
        to_hidden = gradient * (1.0 - jnp.square(hidden))  # times u, later
        to_u = jnp.sum(gradient * hidden, axis=(0, 2, 3))
        return jnp.sum(to_hidden, axis=3), jnp.sum(to_hidden, axis=2), to_u

    # One feature of the head after the other: three sums share a tanh, and would keep all of them.
    by_feature = jnp.moveaxis(q, 3, 0), jnp.moveaxis(k, 3, 0)
    to_q, to_k, to_u = (jnp.moveaxis(x, 0, -1) for x in jax.lax.map(of_feature, by_feature))
    to_q, to_k = to_q * u[None, :, None, :], to_k * u[None, :, None, :]
    b, n, s, h = to_k.shape
    kv_heads = kept[1].shape[2]
    to_k = jnp.sum(to_k.reshape(b, kv_heads, n // kv_heads, s, h), axis=2)
    return (
        jnp.transpose(to_q, (0, 2, 1, 3)).astype(kept[0].dtype),
        jnp.transpose(to_k, (0, 2, 1, 3)).astype(kept[1].dtype),
        to_u.astype(kept[2].dtype),
    )


_score.defvjp(_forward, _backward)
