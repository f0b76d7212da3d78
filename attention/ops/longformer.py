"""A window, and some tokens that see and are seen by all of their segment.

Longformer (2020), arXiv 2004.05150, section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool

from attention.ops.masks import Tokens
from attention.ops.selection import Blocks, Chosen, Rows, band, past_room, places, room_for
from attention.ops.spans import same_span, spans
from attention.ops.window import Window, block_size


@dataclass(frozen=True)
class Longformer:
    """Query i sees key j iff j is in its window, or one of both is a global token.

    Attributes:
        window: what all others see.
        max_global_tokens: for how many global tokens a row has room; see `room_for`.
        marked: which tokens are global; None = the first of each segment.
        queries: the queries that see anything.
        keys: which of them; "near" are those of the window, "far" all others.
    """

    WHOLE_ROWS: ClassVar[bool] = True  # what is seen depends on all of a segment

    window: Window
    max_global_tokens: int | None = None
    marked: Bool[Array, "#b t"] | None = None
    queries: Literal["all", "local", "global"] = "all"
    keys: Literal["all", "near", "far"] = "all"

    def features(self, tokens: Tokens) -> dict[str, Array]:
        span = spans(tokens)
        is_global = tokens.index == span.start if self.marked is None else self._marked(tokens)
        if tokens.segment is not None:
            is_global = is_global & (tokens.segment != 0)
        return {"start": span.start, "length": span.stop - span.start, "is_global": is_global}

    def visible(self, queries: Tokens, keys: Tokens) -> Bool[Array, "#b t s"]:
        near = self.window.visible(queries, keys)
        from_global = queries.features["is_global"][:, :, None]
        far = (from_global | keys.features["is_global"][:, None, :]) & same_span(queries, keys)
        seen = {"all": near | far, "near": near, "far": far & ~near}[self.keys]
        if self.queries == "all":
            return seen
        return seen & (from_global if self.queries == "global" else ~from_global)

    def groups(self, tokens: Tokens) -> tuple[Blocks | Chosen, ...]:
        """A band with the block of the segment's first token; or a band, and the global tokens."""
        if self.queries == "global":
            return ()
        length, left, right = tokens.index.shape[1], self.window.left, self.window.right
        size = block_size(max(left, right))
        reads = band(length, left=left, right=right, size=size)
        if self.marked is not None:
            near = Blocks(replace(self, keys="near"), size, reads)
            chosen = places(tokens.features["is_global"], self._room(tokens))
            return (near, Chosen(replace(self, keys="far"), chosen))
        first = tokens.features["start"][:, ::size] // size
        # What starts later in a block than its first token is in the band already.
        before = jnp.arange(reads.shape[1], dtype=jnp.int32)[None, :] - -(-left // size)
        far = jnp.where(first < before, first, -1)
        near = jnp.broadcast_to(jnp.asarray(reads), (far.shape[0], *reads.shape[1:]))
        return (Blocks(self, size, jnp.concatenate([near, far[:, :, None]], axis=2)),)

    def full_rows(self, tokens: Tokens) -> Rows | None:
        is_global, room = tokens.features["is_global"], self._room(tokens)
        if self.marked is not None:
            # What there is no room for is missing to every query of the row.
            lost = jnp.sum(is_global.astype(jnp.int32), axis=1, keepdims=True) > room
            lost = jnp.broadcast_to(lost, is_global.shape)
            return Rows(places(is_global, 0 if self.queries == "local" else room), lost)
        if self.queries == "local":
            return None
        if self.queries == "all":
            # Of a segment that ends within the window of its first token, nothing is missing.
            is_global = is_global & (tokens.features["length"] > self.window.right + 1)
            room = min(room, tokens.index.shape[1] // (self.window.right + 2))
        return Rows(places(is_global, room), past_room(is_global, room))

    def _marked(self, tokens: Tokens) -> Bool[Array, "#b t"]:
        marked = jnp.asarray(self.marked)
        if (
            marked.dtype != jnp.bool_
            or marked.ndim != 2
            or marked.shape[1] != tokens.index.shape[1]
        ):
            raise ValueError(
                f"global_mask is {marked.dtype} {marked.shape}: it must be boolean, [batch, "
                f"{tokens.index.shape[1]}], True = global"
            )
        return marked

    def _room(self, tokens: Tokens) -> int:
        if self.marked is None and tokens.segment is None:
            return 1
        return room_for(tokens.index.shape[1], self.max_global_tokens)
