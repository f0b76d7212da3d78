"""Some queries against some keys: the one place where scores become weights and weights a result.

Scores and normalizer are float32 whatever the activations are. All longer computations (query
blocks, windows, patterns) are made of calls of these functions.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention import normalizers
from attention.core.dropout import Drop
from attention.core.parts import Arrays, Parts
from attention.ops import masks
from attention.ops.heads import unfold_groups
from attention.ops.masks import Conditions
from attention.ops.products import value_product


def attend_block(
    parts: Parts,
    arrays: Arrays,
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    v: Float[Array, "b s k h_v"],
    given: Conditions,
    drop: Drop | None = None,
) -> Float[Array, "b t n h_v"]:
    """Returns the weighted sums of the values, in their type."""
    weights = weights_block(parts, arrays, q, k, given)
    if drop is not None:
        weights = drop(weights)
    return weigh(parts, arrays, weights, v, distance_of(given))


def weights_block(
    parts: Parts,
    arrays: Arrays,
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    given: Conditions,
) -> Float[Array, "b n t s"]:
    """Returns the share of each value, in float32."""
    return normalize(parts, arrays, scores_block(parts, arrays, q, k, given), masks.visible(given))


def scores_block(
    parts: Parts,
    arrays: Arrays,
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    given: Conditions,
) -> Float[Array, "b n t s"]:
    """Returns the scores with all that is added to them, before mask and normalizer."""
    score = parts.score
    own = {array.name: arrays[array.name] for array in score.arrays}
    scores = score.function(q, k, **own)
    relative, terms = parts.relative, _relative_arrays(parts, arrays)
    if relative is not None:
        distance = distance_of(given)
        term = relative.key_term(score.toward_key(q, **own), distance, **terms)
        scores = scores if term is None else scores + term
    if parts.mix.scores is not None:
        scores = parts.mix.scores(scores, **_mix_arrays(parts, arrays))
    if parts.softcap is not None:
        scores = parts.softcap * jnp.tanh(scores / parts.softcap)
    if relative is not None:
        bias = relative.bias(distance, **terms)
        scores = scores if bias is None else scores + jnp.broadcast_to(bias, scores.shape)
    return scores


def normalize(
    parts: Parts,
    arrays: Arrays,
    scores: Float[Array, "b n t s"],
    visible: Bool[Array, "#b #n #t #s"] | None,
) -> Float[Array, "b n t s"]:
    """Returns the weights for scores of all the keys of a query."""
    normalizer = normalizers.get(parts.normalizer)
    own = {array.name: arrays[array.name] for array in normalizer.ARRAYS}
    weights = normalizer.normalize(scores, visible, **own, **dict(parts.normalizer_options))
    if parts.mix.weights is not None:
        weights = parts.mix.weights(weights, **_mix_arrays(parts, arrays))
        if visible is not None and visible.shape[1] > 1:
            # Where a mask differs between heads, one that sees nothing must not read through
            # others.
            weights = jnp.where(jnp.any(visible, axis=-1, keepdims=True), weights, 0.0)
    return weights


def weigh(
    parts: Parts,
    arrays: Arrays,
    weights: Float[Array, "b n t s"],
    v: Float[Array, "b s k h_v"],
    distance: Int[Array, "#b t s"],
) -> Float[Array, "b t n h_v"]:
    """Returns Σ weight · value, with what positions add to the values, in the type of v."""
    b, n, _, s = weights.shape
    folded = weights.reshape(b, v.shape[2], -1, s)
    out = unfold_groups(value_product(folded, v), n)
    if parts.relative is not None:
        term = parts.relative.value_term(weights, distance, **_relative_arrays(parts, arrays))
        out = out if term is None else out + term
    return out.astype(v.dtype)


def distance_of(given: Conditions) -> Int[Array, "#b t s"]:
    """Returns key position − query position."""
    return given.keys.position[:, None, :] - given.queries.position[:, :, None]


def _relative_arrays(parts: Parts, arrays: Arrays) -> Arrays:
    names = () if parts.relative is None else parts.relative.ARRAYS
    return {name: arrays[name] for name in names}


def _mix_arrays(parts: Parts, arrays: Arrays) -> Arrays:
    return {array.name: arrays[array.name] for array in parts.mix.arrays}
