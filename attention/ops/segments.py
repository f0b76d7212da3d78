"""Rows that hold several examples: segment ids, and positions that restart at each segment."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int


def positions_in_segments(segment_ids: Int[Array, "b t"]) -> Int[Array, "b t"]:
    """Returns 0, 1, … for each row, restarting wherever the segment id changes."""
    index = jnp.arange(segment_ids.shape[1], dtype=jnp.int32)[None, :]
    changed = segment_ids[:, 1:] != segment_ids[:, :-1]
    starts = jnp.where(changed, index[:, 1:], 0)
    starts = jnp.pad(starts, ((0, 0), (1, 0)))
    return index - jax.lax.cummax(starts, axis=1)


def checked_positions(
    positions: Int[Array, "#b t"] | None,
    shape: tuple[int, ...],
    segment_ids: Int[Array, "b t"] | None,
) -> Int[Array, "#b t"]:
    """Returns the positions given for an input [b t …], or those that None stands for.

    Raises:
        ValueError: they are not whole numbers, or not [b t] or [1 t].
    """
    b, t = shape
    if positions is None:
        return default_positions(t, segment_ids)
    if positions.shape not in ((b, t), (1, t)) or not jnp.issubdtype(positions.dtype, jnp.integer):
        raise ValueError(
            f"positions are {positions.dtype} {positions.shape}: they must be whole numbers of "
            f"shape {(b, t)} or {(1, t)}"
        )
    return positions


def default_positions(length: int, segment_ids: Int[Array, "b t"] | None) -> Int[Array, "#b t"]:
    """Returns the positions that `positions=None` stands for: 0, 1, … in each segment."""
    if segment_ids is None:
        return jnp.arange(length, dtype=jnp.int32)[None, :]
    return positions_in_segments(segment_ids)
