"""Terms of attention that depend on the distance = key position − query position only.

A term is a frozen description without arrays; its arrays (`ARRAYS`) are keywords of its functions.
A distance is int32 [b t s], or [1 t s] where all rows of the batch share it, and may have any sign.
Everything is float32.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


@dataclass(frozen=True)
class Relative:
    """Where a term can enter a row of attention; a term overrides what it has."""

    ARRAYS: ClassVar[tuple[str, ...]] = ()
    HEAD_AXES: ClassVar[Mapping[str, int]] = {}  # which axis of an array is that of query heads

    def key_term(
        self, q: Float[Array, "b t n h"], distance: Int[Array, "#b t s"], **arrays: Any
    ) -> Float[Array, "b n t s"] | None:
        """Returns what is added to the score, before a softcap; q comes in already scaled."""
        return None

    def bias(
        self, distance: Int[Array, "#b t s"], **arrays: Any
    ) -> Float[Array, "#b n t s"] | None:
        """Returns what is added to the score after a softcap, before the mask."""
        return None

    def value_term(
        self, weights: Float[Array, "b n t s"], distance: Int[Array, "#b t s"], **arrays: Any
    ) -> Float[Array, "b t n h_v"] | None:
        """Returns what is added to the weighted sum of the values."""
        return None


@dataclass(frozen=True)
class Alibi(Relative):
    """−slope · |distance| (Press, Smith & Lewis 2021, arXiv 2108.12409); `slopes` [n]."""

    ARRAYS: ClassVar[tuple[str, ...]] = ("slopes",)
    HEAD_AXES: ClassVar[Mapping[str, int]] = {"slopes": 0}

    def bias(
        self, distance: Int[Array, "#b t s"], *, slopes: Float[Array, " n"]
    ) -> Float[Array, "#b n t s"]:
        far = jnp.abs(distance).astype(jnp.float32)[:, None]
        return -slopes.astype(jnp.float32)[None, :, None, None] * far


@dataclass(frozen=True)
class T5(Relative):
    """A learned number for each bucket of distances (Raffel et al. 2019, arXiv 1910.10683).

    `bias_table` is [buckets n]. Near distances have a bucket each, farther ones share buckets that
    widen geometrically up to max_distance, and all beyond share the last.

    Attributes:
        bidirectional: half of the buckets is for keys behind the query's position, the other half
            for those ahead; otherwise all are for keys behind, and those ahead share bucket 0.
        max_distance: from where on all distances share a bucket, in positions.
    """

    bidirectional: bool
    max_distance: int

    ARRAYS: ClassVar[tuple[str, ...]] = ("bias_table",)
    HEAD_AXES: ClassVar[Mapping[str, int]] = {"bias_table": 1}

    def bias(
        self, distance: Int[Array, "#b t s"], *, bias_table: Float[Array, "buckets n"]
    ) -> Float[Array, "#b n t s"]:
        """Returns the biases.

        Raises:
            ValueError: a table that is not [buckets n], or with fewer buckets than 2 a direction.
        """
        least = 4 if self.bidirectional else 2
        if bias_table.ndim != 2 or bias_table.shape[0] < least:
            raise ValueError(
                f"bias_table has shape {bias_table.shape}: "
                f"it must be [buckets, heads] with at least {least} buckets"
            )
        buckets = self.buckets(distance, bias_table.shape[0])
        # One copy of the table a query: the gradient then sums over keys first, several times
        # faster than adding each of its numbers to the one table.
        b, t, _ = distance.shape
        table = bias_table.astype(jnp.float32).T
        by_query = jnp.broadcast_to(table[None, :, None, :], (b, table.shape[0], t, table.shape[1]))
        return _pick(by_query, buckets)

    def buckets(self, distance: Int[Array, "#b t s"], num_buckets: int) -> Int[Array, "#b t s"]:
        """Returns the bucket of each distance, in 0 … num_buckets − 1."""
        one_way = num_buckets // 2 if self.bidirectional else num_buckets
        behind = t5_buckets(one_way, self.max_distance)
        # Keys ahead: the upper half; distance 0 counts as behind.
        ahead = behind[1:] + one_way if self.bidirectional else np.zeros_like(behind[1:])
        table = jnp.asarray(np.concatenate([behind[::-1], ahead]))
        # Clipped first: no sum with a far distance can overflow.
        near = jnp.clip(distance, -self.max_distance, self.max_distance)
        return jnp.take(table, near + self.max_distance, axis=0, mode="clip")


@dataclass(frozen=True)
class Shaw(Relative):
    """Learned vectors for each clipped distance (Shaw et al. 2018, arXiv 1803.02155).

    The row of distance d in `key_table` and `value_table` [2c+1 h], which the heads share, is
    clip(d, −c, c) + c. Keys and values become k + key_table[row], v + value_table[row]; no array
    [t s h] and none [t s 2c+1] is made of either.
    """

    ARRAYS: ClassVar[tuple[str, ...]] = ("key_table", "value_table")

    def key_term(
        self,
        q: Float[Array, "b t n h"],
        distance: Int[Array, "#b t s"],
        *,
        key_table: Float[Array, "rows h"],
        value_table: Any = None,
    ) -> Float[Array, "b n t s"]:
        """Returns q · key_table[row]; raises ValueError for a table that is not [2c+1 h]."""
        _check_table("key_table", key_table)
        by_row = jnp.einsum(
            "btnh,rh->bntr",
            q.astype(jnp.float32),
            key_table.astype(jnp.float32),
            preferred_element_type=jnp.float32,
        )
        return _pick(by_row, _clipped(distance, key_table))

    def value_term(
        self,
        weights: Float[Array, "b n t s"],
        distance: Int[Array, "#b t s"],
        *,
        value_table: Float[Array, "rows h_v"],
        key_table: Any = None,
    ) -> Float[Array, "b t n h_v"]:
        """Returns Σ_s weight · value_table[row]; raises ValueError as `key_term` does."""
        _check_table("value_table", value_table)
        rows = _clipped(distance, value_table)
        by_row = _sum_by_row(weights.astype(jnp.float32), rows, value_table.shape[0])
        return jnp.einsum(
            "bntr,rh->btnh",
            by_row,
            value_table.astype(jnp.float32),
            preferred_element_type=jnp.float32,
        )


@functools.lru_cache
def t5_buckets(num_buckets: int, max_distance: int) -> np.ndarray:
    """Returns the bucket, of num_buckets, of each distance 0 … max_distance in one direction.

    The first e = num_buckets/2 distances have a bucket each; distance d ≥ e is in bucket
    e + ⌊ln(d/e) / ln(max_distance/e) · (num_buckets − e)⌋, the last one at most.
    """
    exact = num_buckets // 2
    wide = num_buckets - exact
    buckets = np.minimum(np.arange(max_distance + 1), exact)
    distance = exact
    for step in range(1, wide):
        # Bucket exact + step starts where (d/e)^wide ≥ (max_distance/e)^step. In whole numbers:
        # a logarithm may round a distance on the boundary down into the bucket before.
        start = max_distance**step * exact ** (wide - step)
        while distance**wide < start:
            distance += 1
        buckets[distance:] += 1
    return buckets.astype(np.int32)


def _pick(by_row: Float[Array, "b n t r"], rows: Int[Array, "#b t s"]) -> Float[Array, "b n t s"]:
    return jnp.take_along_axis(by_row, rows[:, None], axis=-1, mode="promise_in_bounds")


def _sum_by_row(
    weights: Float[Array, "b n t s"], rows: Int[Array, "#b t s"], num_rows: int
) -> Float[Array, "b n t r"]:
    """Sums over the keys that have the same row: the transpose of `_pick`."""
    shape = jax.ShapeDtypeStruct((*weights.shape[:3], num_rows), weights.dtype)
    (sums,) = jax.linear_transpose(lambda by_row: _pick(by_row, rows), shape)(weights)
    return sums


def _clipped(distance: Int[Array, "#b t s"], table: Float[Array, "rows h"]) -> Array:
    farthest = table.shape[0] // 2
    return jnp.clip(distance, -farthest, farthest) + farthest


def _check_table(name: str, table: Array) -> None:
    if table.ndim != 2 or table.shape[0] % 2 == 0:
        raise ValueError(
            f"{name} has shape {table.shape}: it must be [2c+1, head size], "
            f"a row for each distance from -c to c"
        )
