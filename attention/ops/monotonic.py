"""Attention that moves along the keys in one direction.

Online and Linear-Time Attention by Enforcing Monotonic Alignments (Raffel et al. 2017), arXiv
1704.00784, sections 2.2 to 2.5.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.ops import additive
from attention.ops.alignment import Aligned, Course, follow


def energies(
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s n h"],
    *,
    score_vector: Float[Array, "n h"],
    score_gain: Float[Array, " n"],
    score_offset: Float[Array, " n"],
) -> Float[Array, "b n t s"]:
    """Returns g · uᵀ tanh(q + k) / ‖u‖ + r (equation 16), in float32."""
    vector = score_vector.astype(jnp.float32)
    length = jnp.sqrt(jnp.sum(jnp.square(vector), axis=-1))
    vector = vector * (score_gain / length)[:, None]
    return additive.score(q, k, vector) + score_offset[None, :, None, None]


def expected(
    previous: Float[Array, "b n s"],
    energy: Float[Array, "b n s"],
    seen: Bool[Array, "#b #n s"],
) -> Float[Array, "b n s"]:
    """Returns how likely each key is to be the one attended to, p = σ(energy).

    A path starts at the key where the last one ended, stops at a key with probability p_j and else
    goes on to the next; it passes hidden keys, and past the last one it attends to nothing:
    α_j = p_j q_j with q_j = (1 − p_{j−1}) q_{j−1} + α'_j (equation 9), so that
    q_j = Σ_{i≤j} α'_i Π_{i≤l<j} (1 − p_l), sums of products of numbers in [0, 1]. (The published
    parallel form divides by such products, which come to zero in float32, and logarithms of them
    lose digits where they cancel.)
    """
    stops = jnp.where(seen, jax.nn.sigmoid(energy), 0.0)
    # 1 − p would round to 0 where p is near 1.
    passes = jnp.where(seen, jax.nn.sigmoid(-energy), 1.0)
    return stops * _reached(previous, passes)


def chosen(
    previous: Float[Array, "b n s"],
    energy: Float[Array, "b n s"],
    seen: Bool[Array, "#b #n s"],
) -> Float[Array, "b n s"]:
    """Returns the same where a path stops at the first key with p > ½ (algorithm 1)."""
    stops = seen & (energy > 0.0)
    return stops * _reached(previous, jnp.where(stops, 0.0, 1.0))


@functools.partial(jax.jit, static_argnames="hard")
def align(energy: Float[Array, "b n t s"], course: Course, *, hard: bool) -> Aligned:
    """Returns the weights of queries that follow each other, in float32; rows sum to at most 1."""
    mechanism = chosen if hard else expected

    def at_query(alignment, energy, seen):
        weights = mechanism(alignment, energy, seen)
        return weights, weights

    return follow(at_query, jnp.moveaxis(energy, 2, 0), course)


def first(b: int, n: int, s: int) -> Float[Array, "b n s"]:
    """Returns the alignment before the first query: at key 0."""
    return jnp.broadcast_to(jnp.arange(s) == 0, (b, n, s)).astype(jnp.float32)


def _reached(previous: Array, passes: Array) -> Array:
    """Returns q_j = passes_{j−1} q_{j−1} + previous_j."""

    def join(before, after):
        (factor, mass), (next_factor, next_mass) = before, after
        return factor * next_factor, mass * next_factor + next_mass

    passes = jnp.pad(passes[..., :-1], ((0, 0), (0, 0), (1, 0)))
    return jax.lax.associative_scan(join, (passes, previous), axis=-1)[1]
