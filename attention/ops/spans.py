"""Where the segment of each token begins and ends: for patterns that count from there.

A segment is a stretch of equal ids; the same id further on is another segment. Without ids a row is
one segment.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from attention.ops.masks import Tokens


class Span(NamedTuple):
    """The stretch that a token is in, as places in the row.

    Attributes:
        start: its first place.
        stop: the place after its last one.
    """

    start: Int[Array, "#b t"]
    stop: Int[Array, "#b t"]


def spans(tokens: Tokens) -> Span:
    """Returns the span of the segment of each token of whole rows."""
    if tokens.segment is None:
        length = tokens.index.shape[1]
        first = jnp.zeros((1, length), jnp.int32)
        return Span(first, jnp.full_like(first, length))
    index = jnp.arange(tokens.segment.shape[1], dtype=jnp.int32)[None, :]
    changes = tokens.segment[:, 1:] != tokens.segment[:, :-1]
    begins = jnp.pad(changes, ((0, 0), (1, 0)), constant_values=True)
    ends = jnp.pad(changes, ((0, 0), (0, 1)), constant_values=True)
    start = jax.lax.cummax(jnp.where(begins, index, 0), axis=1)
    stop = jax.lax.cummin(jnp.where(ends, index + 1, index.shape[1]), axis=1, reverse=True)
    return Span(start, stop)


def same_span(queries: Tokens, keys: Tokens) -> Bool[Array, "#b t s"]:
    """Returns who is in the same segment, of tokens with their start as feature "start"."""
    return queries.features["start"][:, :, None] == keys.features["start"][:, None, :]
