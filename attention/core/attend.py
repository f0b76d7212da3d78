"""Exact attention: one function for every variant that has weights.

The order inside a row of scores is: score → mask → normalizer → weights · V, with scores and
normalizer in float32 whatever the activations are. Every step is a pure function of some queries
and all keys.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Bool, Float, Int

from attention.ops import masks
from attention.ops.heads import unfold_groups
from attention.ops.products import value_product

Offset = int | Int[Array, ""] | Int[Array, " b"]


@dataclass(frozen=True)
class Parts:
    """What an exact variant is made of.

    Attributes:
        score: (q [b t n h], k [b s k h]) → scores [b n t s], float32.
        normalizer: (scores [b n t s], visible [b n t s] | None) → weights [b n t s].
    """

    score: Callable[[Array, Array], Array]
    normalizer: Callable[[Array, Array | None], Array]


def attend(
    parts: Parts,
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    v: Float[Array, "b s k h_v"],
    *,
    mask: Bool[Array, "#b #n #t #s"] | None = None,
    causal: bool = False,
    query_offset: Offset | None = None,
    segment_ids: Int[Array, "b t"] | None = None,
    key_segment_ids: Int[Array, "b s"] | None = None,
    drop: Callable[[Array], Array] | None = None,
) -> Float[Array, "b t n h_v"]:
    """Returns the weighted sums of the values, in their type; zeros for a query that sees no key.

    Args:
        parts: score and normalizer.
        q: queries.
        k, v: keys and values, each head of which serves n/k query heads that follow each other.
        mask, causal, query_offset, segment_ids, key_segment_ids: who sees whom, all ANDed; see
            `masks.conditions`.
        drop: weights → weights, applied before the values are weighed: a layer's dropout.

    Raises:
        ValueError: shapes, masks or ids that do not fit; causal with t ≠ s and no query_offset.
    """
    conditions = masks.conditions(
        _scores_shape(q, k, v),
        mask=mask,
        causal=causal,
        query_offset=query_offset,
        segment_ids=segment_ids,
        key_segment_ids=key_segment_ids,
    )
    given = _weights(parts, q, k, conditions)
    return _weigh(given if drop is None else drop(given), v)


def weights(
    parts: Parts,
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    *,
    mask: Bool[Array, "#b #n #t #s"] | None = None,
    causal: bool = False,
    query_offset: Offset | None = None,
    segment_ids: Int[Array, "b t"] | None = None,
    key_segment_ids: Int[Array, "b s"] | None = None,
) -> Float[Array, "b n t s"]:
    """Returns the share of each value in `attend` with the same arguments, in float32."""
    conditions = masks.conditions(
        _scores_shape(q, k),
        mask=mask,
        causal=causal,
        query_offset=query_offset,
        segment_ids=segment_ids,
        key_segment_ids=key_segment_ids,
    )
    return _weights(parts, q, k, conditions)


def _weights(parts: Parts, q, k, conditions: masks.Conditions):
    visible = masks.visible(conditions, k.shape[1])
    return parts.normalizer(parts.score(q, k), visible)


def _weigh(weights, v):
    b, n, _, s = weights.shape
    folded = weights.reshape(b, v.shape[2], -1, s)
    return unfold_groups(value_product(folded, v), n).astype(v.dtype)


def _scores_shape(q: Array, k: Array, v: Array | None = None) -> tuple[int, int, int, int]:
    """Returns (b, n, t, s); raises ValueError unless the arrays fit each other."""
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array is not None and array.ndim != 4:
            raise ValueError(
                f"{name} has shape {array.shape}: it must be [batch, length, heads, head size]"
            )
    b, t, n, h = q.shape
    s, groups = k.shape[1], k.shape[2]
    if k.shape[0] != b or k.shape[3] != h or (v is not None and v.shape[:3] != k.shape[:3]):
        shapes = f"q {q.shape}, k {k.shape}" + ("" if v is None else f", v {v.shape}")
        raise ValueError(f"batch, key length, heads or head sizes do not fit: {shapes}")
    if n % groups:
        raise ValueError(f"{groups} key heads must divide {n} query heads")
    return b, n, t, s
