"""Attention in blocks of queries, recomputed in the backward pass: memory linear in the length.

The function of a block is the same as that of the whole (`block.attend_block`), so this holds for
any score, bias, mask, normalizer and mix of heads. After arXiv 2112.05682.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention.core.block import attend_block
from attention.core.dropout import Drop
from attention.core.parts import Arrays, Parts
from attention.ops import masks
from attention.ops.masks import Conditions, Tokens

# A loop that is written out can give each of its blocks another number of keys, so that causal
# attention skips the keys that lie ahead: 8 blocks do 9/16 of the work. More compile for longer.
MAX_WRITTEN_OUT = 8


class Inputs(NamedTuple):
    """What is cut into blocks."""

    q: Float[Array, "b t n h"]
    k: Float[Array, "b s k h"]
    v: Float[Array, "b s k h_v"]
    given: Conditions
    arrays: Arrays
    drop: Drop | None


def attend_chunked(
    parts: Parts, inputs: Inputs, *, block_size: int, aligned: bool
) -> Float[Array, "b t n h_v"]:
    """Returns what one block of all queries gives, up to rounding.

    Args:
        parts: the mechanism.
        inputs: queries, keys, values and all that goes with them.
        block_size: queries a block.
        aligned: whether query i sits at key i, known while tracing: then a causal block needs no
            key after its end.
    """
    in_blocks = functools.partial(_over_queries, parts, block_size=block_size, aligned=aligned)
    if jax.default_backend() != "cpu" or parts.mixes_heads:
        return in_blocks(inputs)
    # The scores of one head in one row stay in the cache of a CPU; those of all do not.
    return over_heads(parts, inputs, lambda head: _over_rows(head, in_blocks))


# -- blocks of queries -----------------------------------------------------------------------------


def _over_queries(parts: Parts, inputs: Inputs, *, block_size: int, aligned: bool):
    t = inputs.q.shape[1]
    num_blocks = -(-t // block_size)
    causal = inputs.given.causal and aligned
    if num_blocks <= MAX_WRITTEN_OUT:
        stages = [(start, min(start + block_size, t)) for start in range(0, t, block_size)]
    elif causal:
        rows = -(-num_blocks // MAX_WRITTEN_OUT) * block_size
        stages = [(start, min(start + rows, t)) for start in range(0, t, rows)]
    else:
        stages = [(0, t)]
    outputs = []
    for number, (start, stop) in enumerate(stages):
        stage = inputs._replace(
            q=inputs.q[:, start:stop],
            given=masks.query_block(inputs.given, start, stop),
            drop=inputs.drop and inputs.drop.for_block(number),
        )
        if causal:
            stage = stage._replace(
                k=inputs.k[:, :stop],
                v=inputs.v[:, :stop],
                given=masks.key_prefix(stage.given, stop),
            )
        looped = stop - start > block_size
        outputs.append(_loop(parts, stage, block_size) if looped else _block(parts, stage))
    return jnp.concatenate(outputs, axis=1)


def _block(parts: Parts, inputs: Inputs):
    q, k, v, given, arrays, drop = inputs
    # Closed over, what is not an array (parts, causal, pattern) stays out of the tracing.
    recomputed = jax.checkpoint(lambda q, k, v: attend_block(parts, arrays, q, k, v, given, drop))
    return recomputed(q, k, v)


def _loop(parts: Parts, inputs: Inputs, block_size: int):
    """The blocks one after the other in a compiled loop: they are all alike."""
    t = inputs.q.shape[1]
    num_blocks = -(-t // block_size)
    mask = inputs.given.mask
    masked_by_query = mask is not None and mask.shape[2] > 1
    # From [b t …] to [blocks b block_size …].
    split = functools.partial(_split, num_blocks=num_blocks, axis=1)
    xs = {
        "number": jnp.arange(num_blocks),
        "q": split(inputs.q),
        "queries": jax.tree.map(split, inputs.given.queries),
        "mask": _split(mask, num_blocks, axis=2) if mask is not None and masked_by_query else None,
    }

    def body(x: dict[str, Any]):
        given = inputs.given._replace(
            queries=x["queries"], mask=x["mask"] if masked_by_query else mask
        )
        drop = inputs.drop and inputs.drop.for_block(x["number"])
        return _block(parts, inputs._replace(q=x["q"], given=given, drop=drop))

    outputs = jax.lax.map(body, xs)
    joined = jnp.moveaxis(outputs, 0, 1)
    return joined.reshape(joined.shape[0], -1, *joined.shape[3:])[:, :t]


def _split(x: Array, num_blocks: int, axis: int) -> Array:
    length = x.shape[axis]
    size = -(-length // num_blocks)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, num_blocks * size - length)
    shape = (*x.shape[:axis], num_blocks, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(jnp.pad(x, padding).reshape(shape), axis, 0)


# -- heads and rows --------------------------------------------------------------------------------


def over_heads(parts: Parts, inputs: Inputs, attend: Callable[[Inputs], Array]):
    """One key head, with the query heads that it serves, after the other."""
    q, k, v, given, arrays, drop = inputs
    kv_heads = k.shape[2]
    axes = head_axes(parts)
    by_head = functools.partial(_split, num_blocks=kv_heads)
    mask = given.mask
    masked_by_head = mask is not None and mask.shape[1] > 1
    xs = {
        "number": jnp.arange(kv_heads),
        "q": by_head(q, axis=2),
        "k": by_head(k, axis=2),
        "v": by_head(v, axis=2),
        "mask": by_head(mask, axis=1) if mask is not None and masked_by_head else None,
        "arrays": {name: by_head(arrays[name], axis=axis) for name, axis in axes.items()},
    }

    def body(x: dict[str, Any]):
        # A split moves the heads of a group to where all heads were.
        return attend(
            Inputs(
                x["q"],
                x["k"],
                x["v"],
                given._replace(mask=x["mask"] if masked_by_head else mask),
                {**arrays, **x["arrays"]},
                drop and drop.for_block(x["number"]),
            )
        )

    outputs = jax.lax.map(body, xs)  # [k b t g h]
    k_heads, b, t, groups, h = outputs.shape
    return jnp.transpose(outputs, (1, 2, 0, 3, 4)).reshape(b, t, k_heads * groups, h)


def head_axes(parts: Parts) -> dict[str, int]:
    """Returns, for the arrays that have an axis of query heads, which one it is."""
    own = {
        array.name: array.axes.split().index("n")
        for array in parts.own_arrays
        if "n" in array.axes.split()
    }
    return own if parts.relative is None else {**own, **parts.relative.HEAD_AXES}


def _over_rows(inputs: Inputs, attend: Callable[[Inputs], Array]):
    """One row of the batch after the other."""
    b = inputs.q.shape[0]
    if b == 1:
        return attend(inputs)
    given = inputs.given
    rowwise = {
        "q": inputs.q,
        "k": inputs.k,
        "v": inputs.v,
        "queries": given.queries,
        "keys": given.keys,
        "mask": given.mask,
    }
    leaves, structure = jax.tree.flatten(rowwise)
    shared = [leaf.shape[0] == 1 for leaf in leaves]
    xs = [leaf[:, None] for leaf, same in zip(leaves, shared, strict=True) if not same]

    def body(x: tuple[Array, list[Array]]):
        number, own = x
        rest = iter(own)
        whole = [leaf if same else next(rest) for leaf, same in zip(leaves, shared, strict=True)]
        row: dict[str, Any] = jax.tree.unflatten(structure, whole)
        conditions = given._replace(
            queries=Tokens(*row["queries"]), keys=Tokens(*row["keys"]), mask=row["mask"]
        )
        return attend(
            Inputs(
                row["q"],
                row["k"],
                row["v"],
                conditions,
                inputs.arrays,
                inputs.drop and inputs.drop.for_block(number),
            )
        )

    return jax.lax.map(body, (jnp.arange(b), xs))[:, 0]
