"""Trees of arrays whose leading axis is the batch: repeating and reordering its rows."""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

Tree = TypeVar("Tree")


def repeat_rows(tree: Tree, count: int) -> Tree:
    """Each row `count` times, one after the other: leaves [b …] → [b·count …]."""
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, count, axis=0), tree)


def take_rows(tree: Tree, rows: Int[Array, " n"]) -> Tree:
    """The rows of each leaf at these indices, all of which must exist: leaves [n …] → [n …]."""
    return jax.tree.map(lambda leaf: leaf.at[rows].get(mode="promise_in_bounds"), tree)


def to_beams(tree: Tree, *, batch: int, beam_size: int) -> Tree:
    """Leaves [b …] or [b·k …] → [b·k …], the beams of a row adjacent.

    Raises:
        ValueError: a leaf that does not lead with the batch, which no search could reorder.
    """

    def spread(path: tuple, leaf: jax.Array) -> jax.Array:
        rows = leaf.shape[0] if leaf.ndim else None
        if rows == batch * beam_size:
            return leaf
        if rows != batch:
            raise ValueError(
                f"the decoding state{jax.tree_util.keystr(path)} has shape {leaf.shape}; its "
                f"leading axis must be the batch, {batch}, or batch times beams, "
                f"{batch * beam_size}"
            )
        return jnp.repeat(leaf, beam_size, axis=0)

    return jax.tree_util.tree_map_with_path(spread, tree)
