"""Where the segments of packed rows begin and end, read one position after the other.

A run is what a recurrence takes for one segment: a stretch of real positions with one id, together
with any padding (id 0) inside it and behind it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def starts(segment_ids: Int[Array, "b t"]) -> Bool[Array, "b t"]:
    """Returns True at the first real position of each run."""
    last_real = jax.lax.cummax(jnp.where(segment_ids != 0, _index(segment_ids), -1), axis=1)
    carried = jnp.take_along_axis(segment_ids, jnp.maximum(last_real, 0), axis=1)
    before = jnp.pad(carried[:, :-1], ((0, 0), (1, 0)))
    return (segment_ids != 0) & (segment_ids != before)


class Mirror(NamedTuple):
    """Each run turned round, in its own place.

    Attributes:
        source: the position that comes to stand at each; mirrored twice, each stands at its own.
        first, last: the ends of the mirrored stretch that a position is in; its own index outside.
    """

    source: Int[Array, "b t"]
    first: Int[Array, "b t"]
    last: Int[Array, "b t"]


def mirror(segment_ids: Int[Array, "b t"], visible: Bool[Array, "b t"]) -> Mirror:
    """Turns each run round between its first and its last visible position.

    What lies outside, as padding does, stays where it is, so that a run begins where it began.
    """
    length = segment_ids.shape[1]
    index = _index(segment_ids)
    visible = visible & (segment_ids != 0)
    begins = starts(segment_ids)
    ends = jnp.pad(begins[:, 1:], ((0, 0), (0, 1)), constant_values=True)
    run_first = jax.lax.cummax(jnp.where(begins, index, 0), axis=1)
    run_last = jax.lax.cummin(jnp.where(ends, index, length - 1), axis=1, reverse=True)
    next_visible = jax.lax.cummin(jnp.where(visible, index, length), axis=1, reverse=True)
    last_visible = jax.lax.cummax(jnp.where(visible, index, -1), axis=1)
    first = jnp.take_along_axis(next_visible, run_first, axis=1)
    last = jnp.take_along_axis(last_visible, run_last, axis=1)
    inside = (first <= index) & (index <= last)
    first, last = jnp.where(inside, first, index), jnp.where(inside, last, index)
    return Mirror(first + last - index, first, last)


def _index(segment_ids: Array) -> Int[Array, "b t"]:
    return jax.lax.broadcasted_iota(jnp.int32, segment_ids.shape, 1)
