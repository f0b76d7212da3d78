"""α-entmax: weights that are exactly 0 for low scores (Peters et al. 2019, arXiv 1905.05702).

p = argmax over the simplex of p·e + H_α(p), H_α Tsallis's entropy. With [x]₊ = max(x, 0) and a
threshold c that makes the weights sum to 1,

    p_j = [1 + (α−1)(e_j − max e − c)]₊ ^ (1/(α−1))

which is exp(e_j − max e − c), softmax, as α → 1, `entmax15` at 1.5 and `sparsemax` at 2.

c is found by Newton's method, where the paper sorts (α 1.5 and 2) or bisects. A step reads the
scores once and keeps nothing: O(t·s) time a head. On a CPU, at s 128 and 2048, the whole takes 2 to
4 times as long as softmax (7 to 20 times for α other than 1.5 and 2, whose powers are slow), a
bisection to 24 bits 4 times and more, and a sort 30 to 180 times; a TPU would sort in about log² s
passes.

The norm (Σ p)^(α−1) is convex in c, so that the steps from c = 0 never pass the solution, and
(norm − 1) × slope falls at least fourfold with each: float32 precision takes at most
14 + (α−1)·log₂ s steps. The loop ends as soon as no row moves, after 2 to 10 steps on all rows
tried with s up to 2048. A row that has stopped moves no more, whatever the rows beside it need.

The backward pass is the closed form from the weights, which keeps p ^ (2−α) and nothing else.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention.errors import UserError
from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ("alpha",)
SMALLEST_STEP = 2.0**-23


def normalize(
    scores: Float[Array, "b n t s"],
    visible: Bool[Array, "#b #n #t #s"] | None,
    *,
    alpha: float,
) -> Float[Array, "b n t s"]:
    """Returns the α-entmax of the visible keys; zeros where a query sees none.

    Gradients are finite everywhere, and zero for what is not visible.

    Raises:
        UserError: alpha is not in (1, 2].
    """
    if not 1.0 < alpha <= 2.0:
        raise UserError(f"{alpha=} must be above 1 and at most 2: change model.attention.alpha")
    if visible is not None:
        scores = jnp.where(visible, scores, -jnp.inf)
    return _entmax(scores, float(alpha))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _entmax(scores: Float[Array, "b n t s"], alpha: float) -> Float[Array, "b n t s"]:
    largest = jnp.max(scores, axis=-1, keepdims=True)
    # −inf − −inf is NaN: a row without a visible key is shifted by 0 and sums to 0.
    shifted = scores - jnp.where(largest == -jnp.inf, 0.0, largest)
    weights, slopes = _powers(shifted, _threshold(shifted, alpha), alpha)
    # One more step, to first order: it also takes back the rounding of c.
    excess = jnp.sum(weights, axis=-1, keepdims=True) - 1.0
    step = excess / _or_one(jnp.sum(slopes, axis=-1, keepdims=True))
    return jnp.maximum(weights - step * slopes, 0.0)


@_entmax.defjvp
def _entmax_jvp(alpha, primals, tangents):
    weights = _entmax(*primals, alpha)
    # Powers of 0 have infinite derivatives of their own: they are kept out of second derivatives.
    inside = weights > 0.0
    slopes = jnp.where(inside, _power(jnp.where(inside, weights, 1.0), 2.0 - alpha), 0.0)
    moved = slopes * tangents[0]
    slope = _or_one(jnp.sum(slopes, axis=-1, keepdims=True))
    return weights, moved - slopes * (jnp.sum(moved, axis=-1, keepdims=True) / slope)


def _threshold(shifted: Float[Array, "b n t s"], alpha: float) -> Float[Array, "b n t 1"]:
    """Returns c, for scores whose largest is 0 in each row."""
    a = alpha - 1.0
    limit = 14 + math.ceil(a * math.log2(shifted.shape[-1]))

    def unfinished(carry):
        _, moves, step = carry
        return moves & (step < limit)

    def newton(carry):
        c, _, step = carry
        weights, slopes = _powers(shifted, c, alpha)
        total = _or_one(jnp.sum(weights, axis=-1, keepdims=True))
        slope = _or_one(jnp.sum(slopes, axis=-1, keepdims=True))
        # Of the norm total ^ a, whose slope in c is −a · total ^ (a−1) · slope.
        change = -jnp.expm1(-a * jnp.log(total)) / a * total / slope
        moves = change > SMALLEST_STEP * (1.0 + c)
        return jnp.where(moves, c + change, c), jnp.any(moves), step + 1

    start = jnp.zeros((*shifted.shape[:-1], 1), jnp.float32)
    return jax.lax.while_loop(unfinished, newton, (start, jnp.bool_(True), 0))[0]


def _powers(
    shifted: Float[Array, "b n t s"], c: Float[Array, "b n t 1"], alpha: float
) -> tuple[Float[Array, "b n t s"], Float[Array, "b n t s"]]:
    """Returns [1 + (α−1)(e − c)]₊ to the powers 1/(α−1) and 1/(α−1) − 1."""
    beyond = jnp.maximum((alpha - 1.0) * (shifted - c), -1.0)
    base = 1.0 + beyond
    if alpha == 2.0:
        return base, (base > 0.0).astype(jnp.float32)
    if alpha == 1.5:
        return base * base, base
    # 1 + x loses the digits of x that matter when α is near 1.
    weights = jnp.exp(jnp.log1p(beyond) / (alpha - 1.0))
    return weights, weights / jnp.where(base > 0.0, base, 1.0)


def _power(x: Array, exponent: float) -> Array:
    if exponent == 0.0:
        return jnp.ones_like(x)
    return jnp.sqrt(x) if exponent == 0.5 else jnp.exp(exponent * jnp.log(x))


def _or_one(total: Array) -> Array:
    """Returns sums to divide by: 1 in place of the 0 of a row without a visible key."""
    return jnp.where(total == 0.0, 1.0, total)
