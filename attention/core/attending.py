"""Exact attention over whole sequences: checks, conditions, and how the work is cut up."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention.core import implementations
from attention.core.block import attend_block, weights_block
from attention.core.chunked import Inputs, attend_chunked
from attention.core.dropout import Drop
from attention.core.parts import Parts
from attention.core.selected import attend_selected
from attention.ops import masks
from attention.ops.masks import Conditions, Offset


def attend(
    parts: Parts,
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    v: Float[Array, "b s k h_v"],
    *,
    arrays: Mapping[str, Array],
    mask: Bool[Array, "#b #n #t #s"] | None = None,
    causal: bool = False,
    query_offset: Offset | None = None,
    segment_ids: Int[Array, "b t"] | None = None,
    key_segment_ids: Int[Array, "b s"] | None = None,
    positions: Int[Array, "#b t"] | None = None,
    key_index: Int[Array, "#b s"] | None = None,
    implementation: str = "auto",
    block_size: int | None = None,
    drop: Drop | None = None,
    blanked: bool = False,
) -> Float[Array, "b t n h_v"]:
    """Returns the weighted sums of the values, in their type; zeros for a query that sees no key.

    Args:
        parts: the mechanism.
        q: queries.
        k, v: keys and values, each head of which serves n/k query heads that follow each other.
        arrays: the arrays of the parts, by name.
        mask, causal, query_offset, …, key_index: who sees whom, all ANDed; see `masks.conditions`.
        implementation: one of `implementations.NAMES`.
        block_size: queries a block; None = what suits.
        drop: dropout of the weights.
        blanked: padding is known to hold ordinary numbers. Otherwise whatever is there, NaN and
            infinity too, changes neither results nor gradients; its own gradients are 0.

    Raises:
        ValueError: shapes, masks or ids that do not fit; causal with t ≠ s and no query_offset.
    """
    shape = scores_shape(q, k, v)
    given = _conditions(
        parts,
        shape,
        mask=mask,
        causal=causal,
        query_offset=query_offset,
        segment_ids=segment_ids,
        key_segment_ids=key_segment_ids,
        positions=positions,
        key_index=key_index,
    )
    if not all(shape):
        return jnp.zeros((*q.shape[:3], v.shape[3]), v.dtype)
    if not blanked:
        q, k = _blanked(given, q, k)
        v = masks.blanked(v, masks.seen_keys(given))
    way = implementations.choose(
        implementation, length=k.shape[1], size=q.shape[3], dtype=q.dtype, causal=causal
    )
    inputs = Inputs(q, k, v, given, dict(arrays), drop)
    if way.name == "plain":
        return attend_block(parts, inputs.arrays, q, k, v, given, drop)
    aligned = query_offset is None and key_index is None
    if parts.pattern is not None and aligned:
        return attend_selected(parts, inputs)
    return attend_chunked(parts, inputs, block_size=block_size or way.block_size, aligned=aligned)


def weights(
    parts: Parts,
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    *,
    arrays: Mapping[str, Array],
    mask: Bool[Array, "#b #n #t #s"] | None = None,
    causal: bool = False,
    query_offset: Offset | None = None,
    segment_ids: Int[Array, "b t"] | None = None,
    key_segment_ids: Int[Array, "b s"] | None = None,
    positions: Int[Array, "#b t"] | None = None,
) -> Float[Array, "b n t s"]:
    """Returns the share of each value in `attend` with the same arguments, in float32."""
    shape = scores_shape(q, k)
    given = _conditions(
        parts,
        shape,
        mask=mask,
        causal=causal,
        query_offset=query_offset,
        segment_ids=segment_ids,
        key_segment_ids=key_segment_ids,
        positions=positions,
    )
    if not all(shape):
        return jnp.zeros(shape, jnp.float32)
    return weights_block(parts, dict(arrays), *_blanked(given, q, k), given)


def _blanked(given: Conditions, q: Array, k: Array) -> tuple[Array, Array]:
    """Returns queries and keys with zeros for those that are padding."""
    return (
        masks.blanked(q, masks.real_queries(given)),
        masks.blanked(k, masks.seen_keys(given)),
    )


def _conditions(parts: Parts, shape, **given) -> Conditions:
    ordered = parts.relative is not None
    return masks.conditions(shape, pattern=parts.pattern, ordered=ordered, **given)


def scores_shape(q: Array, k: Array, v: Array | None = None) -> tuple[int, int, int, int]:
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
