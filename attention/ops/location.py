"""Scores that look at where the query before them attended.

Attention-Based Models for Speech Recognition (Chorowski et al. 2015), arXiv 1506.07503, equations
8 and 9.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention.ops.alignment import Aligned, Course, follow
from attention.ops.softmax import masked_softmax


def features(
    alignment: Float[Array, "b n s"], filters: Float[Array, "n w r"]
) -> Float[Array, "b n s r"]:
    """Returns f_j = Σ_o F_o α_{j+o−⌊w/2⌋}: a cross-correlation, with zeros past both ends."""
    width, s = filters.shape[1], alignment.shape[2]
    left = width // 2
    padded = jnp.pad(alignment, ((0, 0), (0, 0), (left, width - 1 - left)))
    shifted = jnp.stack([padded[..., o : o + s] for o in range(width)], axis=-1)
    return jnp.einsum("bnsw,nwr->bnsr", shifted, filters)


# Compiled here too: outside of jit, a loop would be compiled anew at each call.
@functools.partial(jax.jit, static_argnames="cumulative")
def align(
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s n h"],
    course: Course,
    *,
    score_vector: Float[Array, "n h"],
    location_filters: Float[Array, "n w r"],
    location_matrix: Float[Array, "n r h"],
    cumulative: bool,
) -> Aligned:
    """Returns softmax(uᵀ tanh(q_i + k_j + U f_ij)) over the visible keys, in float32.

    Args:
        q, k: queries and keys.
        course: whom each query sees, and what it starts from.
        score_vector, location_filters, location_matrix: u, F and U of each head.
        cumulative: f comes from the sum of all weights so far, not from those of the last query.
    """
    queries = jnp.transpose(q.astype(jnp.float32), (1, 0, 2, 3))
    keys = jnp.transpose(k.astype(jnp.float32), (0, 2, 1, 3))

    def at_query(alignment, query, seen):
        of_place = jnp.einsum(
            "bnsr,nrh->bnsh", features(alignment, location_filters), location_matrix
        )
        hidden = jnp.tanh(query[:, :, None, :] + keys + of_place)
        scores = jnp.sum(score_vector[None, :, None, :] * hidden, axis=-1)
        weights = masked_softmax(scores, seen)
        return weights, alignment + weights if cumulative else weights

    return follow(at_query, queries, course)
