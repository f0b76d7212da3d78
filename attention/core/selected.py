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

from attention.core.block import attend_block, distance_of, normalize, scores_block, weigh
from attention.core.chunked import Inputs, over_heads
from attention.core.parts import Parts
from attention.ops import masks
from attention.ops.selection import Blocks, Chosen, Rows, Selective


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
    groups = pattern.groups(inputs.given.queries)
    rows = pattern.full_rows(inputs.given.queries)

    def attend(inputs: Inputs) -> Array:
        out = _attend_groups(parts, inputs, groups)
        return out if rows is None else attend_rows(parts, inputs, rows, out)

    return by_head(parts, inputs, attend)


def by_head(parts: Parts, inputs: Inputs, attend: Callable[[Inputs], Array]) -> Array:
    """Computes one head after the other where that is faster: its scores stay in a CPU's cache."""
    if jax.default_backend() != "cpu" or parts.mixes_heads:
        return attend(inputs)
    return over_heads(parts, inputs, attend)


def _attend_groups(parts: Parts, inputs: Inputs, groups: tuple[Blocks | Chosen, ...]):
    q, k, v = inputs.q, inputs.k, inputs.v
    if not groups:
        return jnp.zeros((*q.shape[:3], v.shape[3]), v.dtype)
    # Recomputed in the backward pass: several arrays as large as the scores are not kept.
    attend = jax.checkpoint(lambda q, k, v: _attend(parts, groups, inputs._replace(q=q, k=k, v=v)))
    return attend(q, k, v)


def _attend(parts: Parts, groups: tuple[Blocks | Chosen, ...], inputs: Inputs):
    arrays, drop = inputs.arrays, inputs.drop
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
        weighed = weigh(parts, arrays, c.in_blocks(own), c.v, distance_of(c.given))
        out = out + c.joined(weighed)
    return out


def attend_rows(
    parts: Parts, inputs: Inputs, rows: Rows, out: Float[Array, "b t n h_v"]
) -> Float[Array, "b t n h_v"]:
    """Returns `out` with the results of some queries replaced by what they see of the whole row.

    Args:
        parts, inputs: the mechanism and its inputs.
        rows: the queries.
        out: the results of all queries.
    """
    if rows.lost is not None:
        out = jnp.where(rows.lost[:, :, None, None], jnp.array(jnp.nan, out.dtype), out)
    index = jnp.broadcast_to(rows.index, (out.shape[0], rows.index.shape[1]))
    if not index.shape[1]:
        return out
    at = jnp.maximum(index, 0)
    given, mask = inputs.given, inputs.given.mask
    if mask is not None and mask.shape[2] > 1:
        mask = jax.vmap(lambda own, row: own[:, row])(_rowwise(mask, at), at)
    queries = jax.tree.map(lambda leaf: _take(leaf, at), given.queries)
    conditions = given._replace(queries=queries, mask=mask)
    drop = inputs.drop and inputs.drop.for_block(1)
    attend = jax.checkpoint(
        lambda q, k, v: attend_block(parts, inputs.arrays, q, k, v, conditions, drop)
    )
    result = attend(_take(inputs.q, at), inputs.k, inputs.v)
    # Past the end: left out.
    target = jnp.where(index < 0, out.shape[1], index)
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
        if own.shape[3] > 1:
            own = jax.vmap(lambda own, row: own[:, :, row])(_rowwise(own, at), at)
        mask = mask & own
    chosen = jax.tree.map(lambda leaf: _take(leaf, at), given.keys)
    conditions = given._replace(keys=chosen, mask=mask, pattern=group.pattern)

    def same(x: Array) -> Array:
        return x

    k, v = _take(inputs.k, at), _take(inputs.v, at)
    return _Cut(inputs.q, k, v, conditions, same, same, same)


class _Layout(NamedTuple):
    """How rows of t tokens are cut into blocks: one remainder modulo `step` after the other."""

    b: int
    t: int
    num_blocks: int
    size: int
    step: int

    def arrange(self, x: Array, axis: int = 1) -> Array:
        """[… t …] → [… blocks size …]; what stands for no token is zero."""
        x = _padded(x, self.num_blocks * self.size - self.t, axis)
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        if self.step > 1:
            x = jnp.swapaxes(x.reshape(*before, -1, self.step, *after), axis, axis + 1)
        return x.reshape(*before, self.num_blocks, self.size, *after)

    def restore(self, x: Array, axis: int = 1) -> Array:
        """[… blocks size …] → [… t …]."""
        before, after = x.shape[:axis], x.shape[axis + 2 :]
        if self.step > 1:
            x = jnp.swapaxes(x.reshape(*before, self.step, -1, *after), axis, axis + 1)
        x = x.reshape(*before, self.num_blocks * self.size, *after)
        return jax.lax.slice_in_dim(x, 0, self.t, axis=axis)

    def queries(self, x: Array) -> Array:
        """[#b t …] → [bc q …]."""
        x = jnp.broadcast_to(x, (self.b, *x.shape[1:]))
        return self.arrange(x).reshape(self.b * self.num_blocks, self.size, *x.shape[2:])

    def keys(self, x: Array, reads) -> Array:
        """[#b t …] → [bc m …]: the blocks that each block reads."""
        read = _read(self.arrange(jnp.broadcast_to(x, (self.b, *x.shape[1:]))), reads)
        return read.reshape(self.b * self.num_blocks, read.shape[2] * self.size, *x.shape[2:])

    def in_order(self, x: Array) -> Array:
        """[bc n q m] → [b n t m]."""
        blocks = x.reshape(self.b, self.num_blocks, *x.shape[1:])
        return self.restore(jnp.moveaxis(blocks, 1, 2), axis=2)

    def in_blocks(self, x: Array) -> Array:
        """[b n t m] → [bc n q m]."""
        blocks = jnp.moveaxis(self.arrange(x, axis=2), 2, 1)
        return blocks.reshape(self.b * self.num_blocks, *blocks.shape[2:])

    def joined(self, x: Array) -> Array:
        """[bc q n h] → [b t n h]."""
        return self.restore(x.reshape(self.b, self.num_blocks, *x.shape[1:]))


def _cut_blocks(inputs: Inputs, group: Blocks, *, alone: bool) -> _Cut:
    b, t, _, _ = inputs.q.shape
    num_blocks, reads = group.reads.shape[1], group.reads
    layout = _Layout(b, t, num_blocks, group.size, group.step)
    mask = layout.keys(jnp.ones((1, t), jnp.bool_), reads)
    there = jnp.repeat(jnp.asarray(reads >= 0), group.size, axis=2)
    there = jnp.broadcast_to(there, (b, *there.shape[1:])).reshape(mask.shape)
    mask = (mask & there)[:, None, None, :]
    if inputs.given.mask is not None:
        mask = mask & _cut_mask(inputs.given.mask, layout, reads)
    conditions = inputs.given._replace(
        queries=jax.tree.map(layout.queries, inputs.given.queries),
        keys=jax.tree.map(lambda leaf: layout.keys(leaf, reads), inputs.given.keys),
        mask=mask,
        pattern=group.pattern,
    )

    def same(x: Array) -> Array:
        return x

    return _Cut(
        layout.queries(inputs.q),
        layout.keys(inputs.k, reads),
        layout.keys(inputs.v, reads),
        conditions,
        same if alone else layout.in_order,
        same if alone else layout.in_blocks,
        layout.joined,
    )


def _cut_mask(mask: Bool[Array, "#b #n #t #s"], layout: _Layout, reads) -> Bool[Array, "c n q m"]:
    """[#b #n #t #s] → [bc #n #q #m]."""
    b, n = layout.b, mask.shape[1]
    mask = jnp.broadcast_to(mask, (b, *mask.shape[1:]))
    # Each block takes its own queries out of all, then of those the keys that it reads: so nothing
    # is ever larger than the mask.
    own = jnp.moveaxis(mask, 2, 1)  # [b t n s]
    if own.shape[1] > 1:
        own = layout.arrange(own)
    else:
        own = jnp.broadcast_to(own[:, None], (b, layout.num_blocks, *own.shape[1:]))
    if own.shape[4] > 1:
        own = layout.arrange(jnp.moveaxis(own, 4, 2), axis=2)  # [b c blocks size q n]
        at = jnp.broadcast_to(jnp.maximum(reads, 0), (b, *reads.shape[1:]))
        own = jax.vmap(jax.vmap(lambda blocks, index: blocks[index]))(own, at)
        own = jnp.moveaxis(own.reshape(b, layout.num_blocks, -1, *own.shape[4:]), 2, 4)
    return jnp.moveaxis(own, 3, 2).reshape(b * layout.num_blocks, n, -1, own.shape[4])


def _read(blocks: Array, reads) -> Array:
    """[b c size …] and [#b c r] → [b c r size …]; what is not there is anything."""
    if isinstance(reads, np.ndarray):
        return blocks[:, np.maximum(reads[0], 0)]
    at = jnp.broadcast_to(jnp.maximum(reads, 0), (blocks.shape[0], *reads.shape[1:]))
    return jax.vmap(lambda own, index: own[index])(blocks, at)


def _take(x: Array, at: Int[Array, "b g"]) -> Array:
    """[#b t …] and [b g] → [b g …]."""
    return jax.vmap(lambda row, index: row[index])(_rowwise(x, at), at)


def _rowwise(x: Array, at: Int[Array, "b g"]) -> Array:
    return jnp.broadcast_to(x, (at.shape[0], *x.shape[1:]))


def _padded(x: Array, more: int, axis: int) -> Array:
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, more)
    return jnp.pad(x, padding)


def _full(visible: Bool[Array, "#b #n #t #s"] | None, shape: tuple[int, int, int, int]):
    assert visible is not None  # the group's pattern hides some
    return jnp.broadcast_to(visible, (*shape[:3], visible.shape[3]))
