"""Factorized patterns: what is near, and from farther away every ℓ-th key or the ends of blocks.

Generating Long Sequences with Sparse Transformers (2019), arXiv 1904.10509, section 4.3. The two
heads of the paper are one pattern here, the union of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from attention.ops.masks import Tokens
from attention.ops.option_checks import check_count
from attention.ops.selection import Blocks, Chosen, band, places
from attention.ops.spans import same_span, spans
from attention.ops.window import block_size


@dataclass(frozen=True)
class Strided:
    """Query i sees key j iff |i − j| < ℓ or |i − j| mod ℓ = 0.

    Attributes:
        stride: ℓ.
        causal: whether j ≤ i only.
        only: one of the two groups, the columns without what is near; None = both.
    """

    stride: int
    causal: bool
    only: Literal["near", "columns"] | None = None

    def features(self, tokens: Tokens) -> dict[str, Array]:
        return {}

    def visible(self, queries: Tokens, keys: Tokens) -> Bool[Array, "#b t s"]:
        back = queries.index[:, :, None] - keys.index[:, None, :]
        near, column = jnp.abs(back) < self.stride, back % self.stride == 0
        seen = {None: near | column, "near": near, "columns": column & ~near}[self.only]
        return seen & (back >= 0) if self.causal else seen

    def groups(self, tokens: Tokens) -> tuple[Blocks, ...]:
        """A band, and the tokens of each remainder modulo ℓ in one block, which reads itself."""
        length, stride = tokens.index.shape[1], self.stride
        near = Blocks(
            Strided(stride, self.causal, "near"),
            block_size(stride - 1),
            _near(length, stride, self.causal),
        )
        if length <= stride:
            return (near,)
        columns = Strided(stride, self.causal, "columns")
        own = np.arange(stride)[None, :, None]
        return (near, Blocks(columns, -(-length // stride), own, stride))

    def full_rows(self, tokens: Tokens) -> None:
        return None


@dataclass(frozen=True)
class Fixed:
    """Query i sees key j iff ⌊j/ℓ⌋ = ⌊i/ℓ⌋ or j mod ℓ ≥ ℓ − c, counted from the segment's start.

    Attributes:
        stride: ℓ, tokens a block.
        summary: c, how many at the end of a block are seen from everywhere.
        causal: whether j ≤ i only.
        only: one of the two groups, the summaries without the query's own block; None = both.
    """

    WHOLE_ROWS: ClassVar[bool] = True  # what is seen depends on all of a segment

    stride: int
    summary: int
    causal: bool
    only: Literal["own", "summaries"] | None = None

    def features(self, tokens: Tokens) -> dict[str, Array]:
        return {"start": spans(tokens).start}

    def visible(self, queries: Tokens, keys: Tokens) -> Bool[Array, "#b t s"]:
        own = self._block(queries)[:, :, None] == self._block(keys)[:, None, :]
        summaries = self._is_summary(keys)[:, None, :]
        seen = {None: own | summaries, "own": own, "summaries": summaries & ~own}[self.only]
        seen = seen & same_span(queries, keys)
        if self.causal:
            seen = seen & (keys.index[:, None, :] <= queries.index[:, :, None])
        return seen

    def groups(self, tokens: Tokens) -> tuple[Blocks | Chosen, ...]:
        """A band that no block reaches out of, wherever it begins; and all summaries of the row."""
        length, stride, summary = tokens.index.shape[1], self.stride, self.summary
        own = Blocks(
            Fixed(stride, summary, self.causal, "own"),
            block_size(stride - 1),
            _near(length, stride, self.causal),
        )
        # A segment of q·ℓ + r tokens has q·c + max(0, r − ℓ + c) summaries, which is at most
        # (q·ℓ + r)·c/ℓ; so however the row is cut into segments, all of them find room.
        room = length * summary // stride
        if not room:
            return (own,)
        marked = self._is_summary(tokens)
        if tokens.segment is not None:
            marked = marked & (tokens.segment != 0)
        chosen = Fixed(stride, summary, self.causal, "summaries")
        return (own, Chosen(chosen, places(marked, room)))

    def full_rows(self, tokens: Tokens) -> None:
        return None

    def _block(self, tokens: Tokens):
        return (tokens.index - tokens.features["start"]) // self.stride

    def _is_summary(self, tokens: Tokens):
        place = tokens.index - tokens.features["start"]
        return place % self.stride >= self.stride - self.summary


def check_stride(stride: int) -> None:
    """Raises UserError for an option `stride` that is not an int within reach."""
    check_count("model.attention.stride", stride)


def _near(length: int, stride: int, causal: bool):
    reach = stride - 1
    return band(length, left=reach, right=0 if causal else reach, size=block_size(reach))
