"""Attention whose weights at one query depend on those at the query before it.

The alignment, [b n s], is what a query hands on to the next: weights, or a sum of them. In packed
rows each segment of queries begins with the first alignment again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention.ops import runs


class Aligned(NamedTuple):
    """The weights of all queries, and what the query after the last would start from."""

    weights: Float[Array, "b n t s"]
    last: Float[Array, "b n s"]


class Course(NamedTuple):
    """What a sequence of queries meets on its way.

    Attributes:
        seen: which key each query may see.
        resets: where the alignment is `first` again.
        first: where a segment of queries starts.
        previous: where the first of these queries starts.
    """

    seen: Bool[Array, "#b #n t s"]
    resets: Bool[Array, "b t"]
    first: Float[Array, "b n s"]
    previous: Float[Array, "b n s"]


# (alignment, inputs of one query, the keys it sees [b #n s]) → (its weights, the next alignment)
Align = Callable[[Array, Any, Array], tuple[Array, Array]]


def follow(align: Align, inputs: Any, course: Course) -> Aligned:
    """Takes the queries one after the other.

    A query that sees no key has zero weights and leaves the alignment as it was. The backward pass
    computes each query again, so that what it keeps is t·s numbers a head.

    Args:
        align: the mechanism at one query.
        inputs: what it takes of each query; the queries lead every leaf.
        course: see there.
    """

    @jax.checkpoint
    def step(alignment, at):
        given, seen, reset = at
        alignment = jnp.where(reset[:, None, None], course.first, alignment)
        weights, after = align(alignment, given, seen)
        blind = ~jnp.any(seen, axis=-1, keepdims=True)
        return jnp.where(blind, alignment, after), jnp.where(blind, 0.0, weights)

    along = (inputs, jnp.moveaxis(course.seen, 2, 0), jnp.swapaxes(course.resets, 0, 1))
    if course.resets.shape[1] == 1:
        last, weights = step(course.previous, jax.tree.map(lambda leaf: leaf[0], along))
        return Aligned(weights[:, :, None], last)
    last, weights = jax.lax.scan(step, course.previous, along)
    return Aligned(jnp.moveaxis(weights, 0, 2), last)


def later_starts(segment_ids: Int[Array, "b t"]) -> Bool[Array, "b t"]:
    """Returns True where a segment begins that is not the first of its row."""
    begins = runs.starts(segment_ids)
    return begins & (jnp.cumsum(begins, axis=1) > 1)
