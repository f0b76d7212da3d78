"""Scores: how well a query fits a key. Always float32, whatever the activations are."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention.ops.heads import fold_groups
from attention.ops.products import score_product

# Of a vector with a direction: the gradient of |x|⁻¹ has |x|⁻³ in it, which must be finite.
SMALLEST_SQUARE = 1e-24


def dot(q: Float[Array, "b t n h"], k: Float[Array, "b s k h"]) -> Float[Array, "b n t s"]:
    """Returns q·k."""
    b, t, n, _ = q.shape
    return score_product(fold_groups(q, k.shape[2]), k).reshape(b, n, t, -1)


def scaled_dot(q: Float[Array, "b t n h"], k: Float[Array, "b s k h"]) -> Float[Array, "b n t s"]:
    """Returns q·k / √h (Vaswani et al. 2017, equation 1)."""
    # The scale multiplies the float32 product: scaling bfloat16 queries would round them again.
    return dot(q, k) * (1.0 / math.sqrt(q.shape[-1]))


def general(
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    *,
    score_matrix: Float[Array, "n h h"],
) -> Float[Array, "b n t s"]:
    """Returns qᵀ W k with a matrix for each query head (Luong et al. 2015, equation 8)."""
    # A product is as wide as its narrower operand, and qᵀW is no bfloat16 number.
    return dot(times_matrix(q, score_matrix=score_matrix), k.astype(jnp.float32))


def times_matrix(
    q: Float[Array, "b t n h"], *, score_matrix: Float[Array, "n h h"]
) -> Float[Array, "b t n h"]:
    """Returns qᵀ W in float32."""
    wide = (q.astype(jnp.float32), score_matrix.astype(jnp.float32))
    return jnp.einsum("btnh,nhg->btng", *wide, preferred_element_type=jnp.float32)


def cosine(
    q: Float[Array, "b t n h"], k: Float[Array, "b s k h"], *, temperature: Float[Array, " n"]
) -> Float[Array, "b n t s"]:
    """Returns τ · cos(q, k), τ for each query head (arXiv 2010.04245)."""
    return dot(times_temperature(q, temperature=temperature), unit(k))


def times_temperature(
    q: Float[Array, "b t n h"], *, temperature: Float[Array, " n"]
) -> Float[Array, "b t n h"]:
    """Returns τ · q / |q| in float32."""
    return unit(q) * temperature.astype(jnp.float32)[None, None, :, None]


def unit(x: Float[Array, "b t n h"]) -> Float[Array, "b t n h"]:
    """Returns x / |x| in float32; zeros, with zero gradient, for a vector of (nearly) zeros."""
    wide = x.astype(jnp.float32)
    square = jnp.sum(jnp.square(wide), axis=-1, keepdims=True)
    some = square > SMALLEST_SQUARE
    return wide * jnp.where(some, jax.lax.rsqrt(jnp.where(some, square, 1.0)), 0.0)


def l2(q: Float[Array, "b t n h"], k: Float[Array, "b s k h"]) -> Float[Array, "b n t s"]:
    """Returns −‖q − k‖² / √h (Kim et al. 2020, arXiv 2006.04710, equation 5).

    As ‖q‖² + ‖k‖² − 2q·k, so that its error is a few 2⁻²⁴ of (‖q‖² + ‖k‖²) / √h: what all queries
    and keys have in common should be small beside their differences. It is not taken off here: a
    mean of keys would let later keys change the last bits of earlier results, and what the first
    key has may be far from the others.
    """
    groups = q.shape[2] // k.shape[2]
    of_query, of_key = (jnp.sum(jnp.square(x.astype(jnp.float32)), axis=-1) for x in (q, k))
    of_query = jnp.transpose(of_query, (0, 2, 1))[..., None]
    of_key = jnp.repeat(jnp.transpose(of_key, (0, 2, 1)), groups, axis=1)[:, :, None, :]
    # Rounding can leave a distance of two equal vectors a little below zero.
    square = jnp.maximum(of_query + of_key - 2.0 * dot(q, k), 0.0)
    return -square * (1.0 / math.sqrt(q.shape[-1]))
