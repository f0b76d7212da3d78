"""Attention over the keys that a pattern selects: the cost is that of what is seen.

A pattern that can say which keys a block of queries may need (`groups`) is computed from those
alone. Which of them each query sees is still decided pair by pair, by the same conditions as
everywhere; so a selection may hold more than is seen, never less. Several groups (a band, and some
far keys) share one normalizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attention.core.block import attend_block, normalize, scores_block, weigh
from attention.core.chunked import Inputs
from attention.core.parts import Parts
from attention.ops import masks
from attention.ops.selection import Blocks, Chosen, Selective


class _Cut(NamedTuple):
    """The inputs of one group, cut up: all that a call of the block functions takes."""

    q: Float[Array, "bc q n h"]
    k: Float[Array, "bc m k h"]
    v: Float[Array, "bc m k h_v"]
    given: masks.Conditions
    # [bc n q m] → [b n t m] in the order of the queries, and back
    in_order: Callable[[Array], Array]
    in_blocks: Callable[[Array], Array]
    # [bc q n h] → [b t n h]
    joined: Callable[[Array], Array]


def attend_selected(parts: Parts, inputs: Inputs) -> Float[Array, "b t n h_v"]:
    """Returns what one block of all queries and keys gives, up to rounding.

    Queries and keys are the same tokens, in order.
    """
    pattern = parts.pattern
    assert isinstance(pattern, Selective)
    # Recomputed in the backward pass: several arrays as large as the scores are not kept.
    out = jax.checkpoint(lambda q, k, v: _attend(parts, pattern, inputs._replace(q=q, k=k, v=v)))(
        inputs.q, inputs.k, inputs.v
    )
    rows = pattern.full_rows(inputs.given.queries)
    return out if rows is None else attend_rows(parts, inputs, rows, out)


def _attend(parts: Parts, pattern: Selective, inputs: Inputs):
    arrays, drop = inputs.arrays, inputs.drop
    groups = pattern.groups(inputs.given.queries)
    cuts = [_cut(inputs, group, alone=len(groups) == 1) for group in groups]
    scores = [c.in_order(scores_block(parts, arrays, c.q, c.k, c.given)) for c in cuts]
    sees = [
        c.in_order(_full(masks.visible(c.given), (c.q.shape[0], c.q.shape[2], c.q.shape[1], -1)))
        for c in cuts
    ]
    weights = normalize(
        parts, arrays, jnp.concatenate(scores, axis=-1), jnp.concatenate(sees, axis=-1)
    )
    if drop is not None:
        weights = drop(weights)
    ends = np.cumsum([c.k.shape[1] for c in cuts])[:-1]
    out = 0.0
    for c, own in zip(cuts, jnp.split(weights, ends, axis=-1), strict=True):
        distance = c.given.keys.position[:, None, :] - c.given.queries.position[:, :, None]
        out = out + c.joined(weigh(parts, arrays, c.in_blocks(own), c.v, distance))
    return out


def attend_rows(
    parts: Parts, inputs: Inputs, rows: Int[Array, "b g"], out: Float[Array, "b t n h_v"]
) -> Float[Array, "b t n h_v"]:
    """Returns `out` with the results of some queries replaced by what they see of the whole row.

    Args:
        parts, inputs: the mechanism and its inputs.
        rows: the queries, none twice; negative for none.
        out: the results of all queries.
    """
    given = inputs.given
    at = jnp.maximum(rows, 0)
    mask = given.mask
    if mask is not None and mask.shape[2] > 1:
        mask = jnp.take_along_axis(mask, at[:, None, :, None], axis=2)
    queries = jax.tree.map(lambda leaf: _take(leaf, at), given.queries)
    result = attend_block(
        parts,
        inputs.arrays,
        _take(inputs.q, at),
        inputs.k,
        inputs.v,
        given._replace(queries=queries, mask=mask),
        inputs.drop and inputs.drop.for_block(1),
    )
    # Past the end: left out.
    target = jnp.where(rows < 0, out.shape[1], rows)
    row = jnp.arange(out.shape[0], dtype=jnp.int32)[:, None]
    return out.at[row, target].set(result, mode="drop")


# -- cutting ---------------------------------------------------------------------------------------


def _cut(inputs: Inputs, group: Blocks | Chosen, *, alone: bool) -> _Cut:
    if isinstance(group, Chosen):
        return _cut_chosen(inputs, group)
    return _cut_blocks(inputs, group, alone=alone)


def _cut_chosen(inputs: Inputs, group: Chosen) -> _Cut:
    given = inputs.given
    keys = jnp.broadcast_to(group.keys, (inputs.q.shape[0], group.keys.shape[1]))
    at = jnp.maximum(keys, 0)
    mask = (keys >= 0)[:, None, None, :]
    if given.mask is not None:
        own = given.mask
        own = jnp.take_along_axis(own, at[:, None, None, :], axis=3) if own.shape[3] > 1 else own
        mask = mask & own
    chosen = jax.tree.map(lambda leaf: _take(leaf, at), given.keys)
    conditions = given._replace(keys=chosen, mask=mask, pattern=group.pattern)

    def same(x: Array) -> Array:
        return x

    k, v = _take(inputs.k, at), _take(inputs.v, at)
    return _Cut(inputs.q, k, v, conditions, same, same, same)


def _cut_blocks(inputs: Inputs, group: Blocks, *, alone: bool) -> _Cut:
    b, t, _, _ = inputs.q.shape
    order, size = group.order, group.size
    num_blocks = len(order) // size
    plain_order = np.array_equal(order, np.arange(len(order)))
    place = np.argsort(order, kind="stable")[:t]  # where each token went
    reads = jnp.broadcast_to(group.reads, (b, *group.reads.shape[1:]))

    def arrange(x: Array, axis: int = 1) -> Array:
        """[… t …] → [… o …], blocks after blocks; what stands for no token is zero."""
        padding = [(0, 0)] * x.ndim
        padding[axis] = (0, max(len(order) - t, 1) if not plain_order else len(order) - t)
        padded = jnp.pad(x, padding)
        return padded if plain_order else jnp.take(padded, np.minimum(order, t), axis=axis)

    def queries(x: Array) -> Array:
        x = jnp.broadcast_to(x, (b, *x.shape[1:]))
        return arrange(x).reshape(b * num_blocks, size, *x.shape[2:])

    def keys(x: Array) -> Array:
        x = jnp.broadcast_to(x, (b, *x.shape[1:]))
        blocks = arrange(x).reshape(b, num_blocks, size, *x.shape[2:])
        read = _read(blocks, group.reads)
        return read.reshape(b * num_blocks, -1, *x.shape[2:])

    real = keys(jnp.ones((1, t), jnp.bool_))
    real = real & jnp.repeat(reads >= 0, size, axis=2).reshape(real.shape)
    mask = real[:, None, None, :]
    if inputs.given.mask is not None:
        mask = mask & _cut_mask(inputs.given.mask, queries, keys, (b, num_blocks), t)
    conditions = inputs.given._replace(
        queries=jax.tree.map(queries, inputs.given.queries),
        keys=jax.tree.map(keys, inputs.given.keys),
        mask=mask,
        pattern=group.pattern,
    )

    def same(x: Array) -> Array:
        return x

    def in_order(x: Array) -> Array:
        n, m = x.shape[1], x.shape[3]
        joined = jnp.moveaxis(x.reshape(b, num_blocks, n, size, m), 2, 1).reshape(b, n, -1, m)
        return joined[:, :, :t] if plain_order else jnp.take(joined, place, axis=2)

    def in_blocks(x: Array) -> Array:
        n, m = x.shape[1], x.shape[3]
        blocks = arrange(x, axis=2).reshape(b, n, num_blocks, size, m)
        return jnp.moveaxis(blocks, 1, 2).reshape(b * num_blocks, n, size, m)

    def joined(x: Array) -> Array:
        joined = x.reshape(b, -1, *x.shape[2:])
        return joined[:, :t] if plain_order else jnp.take(joined, place, axis=1)

    return _Cut(
        queries(inputs.q),
        keys(inputs.k),
        keys(inputs.v),
        conditions,
        same if alone else in_order,
        same if alone else in_blocks,
        joined,
    )


def _cut_mask(mask: Bool[Array, "#b #n #t #s"], queries, keys, blocks: tuple[int, int], t: int):
    """[#b #n #t #s] → [bc #n #q #m]."""
    b, num_blocks = blocks
    n, by_query, by_key = mask.shape[1], mask.shape[2] > 1, mask.shape[3] > 1
    # Keys to the front, then queries: both cut the second axis.
    by_keys_last = jnp.moveaxis(mask, 3, 1)  # [b s n t]
    cut = keys(by_keys_last) if by_key else _repeated(by_keys_last, b, num_blocks)  # [bc m n t]
    if not by_query:
        return jnp.moveaxis(cut, 1, 3)
    m = cut.shape[1]
    # Each block takes its own queries out of all.
    index = queries(jnp.arange(t, dtype=jnp.int32)[None, :])  # [bc q]
    own = jnp.take_along_axis(cut, index[:, None, None, :], axis=3)
    return jnp.moveaxis(own.reshape(b * num_blocks, m, n, -1), 1, 3)


def _repeated(x: Array, b: int, num_blocks: int) -> Array:
    x = jnp.broadcast_to(x, (b, *x.shape[1:]))
    return jnp.repeat(x, num_blocks, axis=0)


def _read(blocks: Array, reads) -> Array:
    """[b c size …] and [#b c r] → [b c r size …]; what is not there is anything."""
    if isinstance(reads, np.ndarray):
        return blocks[:, np.maximum(reads[0], 0)]
    at = jnp.broadcast_to(jnp.maximum(reads, 0), (blocks.shape[0], *reads.shape[1:]))
    return jax.vmap(lambda own, index: own[index])(blocks, at)


def _take(x: Array, at: Int[Array, "b g"]) -> Array:
    """[#b t …] and [b g] → [b g …]."""
    x = jnp.broadcast_to(x, (at.shape[0], *x.shape[1:]))
    return jax.vmap(lambda row, index: row[index])(x, at)


def _full(visible: Bool[Array, "#b #n #t #s"] | None, shape: tuple[int, int, int, int]):
    assert visible is not None  # the group's pattern hides some
    return jnp.broadcast_to(visible, (*shape[:3], visible.shape[3]))
