"""Which query may see which key. Masks are boolean, and True means "may attend", everywhere."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

Offset = int | Int[Array, ""] | Int[Array, " b"]


class Tokens(NamedTuple):
    """What decides, of each query or of each key, whether and how they see each other.

    Every leaf is [#b length ...], so that a block of tokens is a slice of each.

    Attributes:
        index: the place in the row of keys.
        position: what position schemes measure distances by.
        segment: 0 is padding.
        features: what a pattern must know besides.
    """

    index: Int[Array, "#b t"]
    position: Int[Array, "#b t"]
    segment: Int[Array, "b t"] | None = None
    features: dict[str, Array] = {}  # noqa: RUF012


class Pattern(Protocol):
    """A rule of who sees whom that depends on where queries and keys are."""

    def features(self, tokens: Tokens) -> dict[str, Array]:
        """Returns what `visible` must know of the tokens of whole rows besides their index."""
        ...

    def visible(self, queries: Tokens, keys: Tokens) -> Bool[Array, "#b t s"]:
        """Returns whether each query may see each key, segments and causality apart."""
        ...


class Conditions(NamedTuple):
    """All that decides who sees whom; every condition must hold.

    Queries and keys are kept apart, so that a block of queries against some of the keys is made of
    slices.
    """

    queries: Tokens
    keys: Tokens
    mask: Bool[Array, "#b #n #t #s"] | None = None
    causal: bool = False
    pattern: Pattern | None = None


def conditions(
    shape: tuple[int, int, int, int],
    *,
    mask: Bool[Array, "#b #n #t #s"] | None = None,
    causal: bool = False,
    query_offset: Offset | None = None,
    segment_ids: Int[Array, "b t"] | None = None,
    key_segment_ids: Int[Array, "b s"] | None = None,
    positions: Int[Array, "#b t"] | None = None,
    key_index: Int[Array, "#b s"] | None = None,
    pattern: Pattern | None = None,
    ordered: bool = False,
) -> Conditions:
    """Checks the conditions against the shape (b, n, t, s) of the scores and gathers them.

    Args:
        shape: batch, query heads, queries, keys.
        mask: True = may attend; a padding mask is [b 1 1 s].
        causal: query i sees key j only if j ≤ i + query_offset.
        query_offset: the key position of query 0; None means 0 where t = s.
        segment_ids: equal ids see each other; 0 is padding, and sees and is seen by nothing.
        key_segment_ids: those of the keys; `segment_ids` where t = s.
        positions: where queries are the keys: what distances are measured by; None = the index.
        key_index: the place of each key, where they are not 0, 1, …
        pattern: who sees whom by place.
        ordered: whether anything else depends on how queries lie to keys (a position scheme).

    Raises:
        ValueError: a mask that is not boolean, not of rank 4 or does not fit; causal, a pattern or
            positions with t ≠ s and no offset; segment ids of one side only, or of wrong shape.
    """
    b, _, t, s = shape
    check_mask(mask, shape)
    if (causal or pattern or ordered) and query_offset is None and t != s:
        what = "causal attention" if causal else "attention by position"
        raise ValueError(
            f"{what} of {t} queries over {s} keys needs query_offset: "
            f"the key position at which the first query sits"
        )
    if getattr(pattern, "WHOLE_ROWS", False) and (t != s or query_offset is not None):
        raise ValueError(
            f"this pattern is one of whole rows: queries and keys must be the same tokens, without "
            f"query_offset, and here are {t} queries and {s} keys"
        )
    segment_ids, key_segment_ids = both_segments(shape, segment_ids, key_segment_ids)
    index = _query_index(b, t, query_offset)
    if key_index is None:
        key_index = jnp.arange(s, dtype=jnp.int32)[None, :]
    queries = Tokens(index, index if positions is None else positions, segment_ids)
    keys = Tokens(key_index, key_index if positions is None else positions, key_segment_ids)
    if pattern is not None:
        queries = queries._replace(features=pattern.features(queries))
        keys = keys._replace(features=pattern.features(keys))
    return Conditions(queries, keys, mask, causal, pattern)


def check_mask(mask: Array | None, shape: tuple[int, int, int, int]) -> None:
    """Raises ValueError unless the mask is boolean, of rank 4, and broadcasts to `shape`."""
    if mask is None:
        return
    if mask.dtype != jnp.bool_:
        raise ValueError(f"mask has dtype {mask.dtype}: it must be boolean, True = may attend")
    if mask.ndim != 4:
        raise ValueError(
            f"mask has shape {mask.shape}: it must have rank 4, [b n t s] = {shape} "
            f"(a padding mask is [b 1 1 s])"
        )
    if any(have not in (1, want) for have, want in zip(mask.shape, shape, strict=True)):
        raise ValueError(f"mask of shape {mask.shape} does not broadcast to [b n t s] = {shape}")


def visible(given: Conditions) -> Bool[Array, "#b #n #t s"] | None:
    """Returns which key each query may see; None where every query sees every key."""
    queries, keys = given.queries, given.keys
    parts = []
    if given.causal:
        parts.append(keys.index[:, None, :] <= queries.index[:, :, None])
    if given.pattern is not None:
        parts.append(given.pattern.visible(queries, keys))
    if queries.segment is not None and keys.segment is not None:
        ids = queries.segment[:, :, None]
        parts.append((ids == keys.segment[:, None, :]) & (ids != 0))
    parts = [part[:, None] for part in parts]
    if given.mask is not None:
        parts.append(given.mask)
    if not parts:
        return None
    together = parts[0]
    for part in parts[1:]:
        together = together & part
    return together


def seen_keys(given: Conditions) -> Bool[Array, "#b s"] | None:
    """Returns which keys some query may see, as far as ids and mask say; None = all."""
    return real_tokens(given.keys.segment, given.mask)


def real_queries(given: Conditions) -> Bool[Array, "b t"] | None:
    """Returns which queries are no padding; None = all."""
    return real_tokens(given.queries.segment, None)


def real_tokens(
    ids: Int[Array, "b s"] | None, mask: Bool[Array, "#b #n #t #s"] | None
) -> Bool[Array, "#b #s"] | None:
    """Returns which tokens are neither padding (id 0) nor hidden from every query; None = all."""
    shown = None if mask is None else jnp.any(mask, axis=(1, 2))
    if ids is None:
        return shown
    return ids != 0 if shown is None else (ids != 0) & shown


def blanked(x: Array, real: Bool[Array, "#b #t"] | None) -> Array:
    """Returns x [b t …] with zeros where it is not real, which stop gradients there as well.

    What is hidden is multiplied all the same, and 0 · NaN is NaN: so what padding holds must not
    get as far as a product.
    """
    if real is None:
        return x
    return jnp.where(real.reshape(*real.shape, *[1] * (x.ndim - 2)), x, jnp.zeros((), x.dtype))


def query_block(given: Conditions, start: int, stop: int) -> Conditions:
    """Returns the conditions of the queries from start to before stop."""
    mask = given.mask
    if mask is not None and mask.shape[2] > 1:
        mask = mask[:, :, start:stop]
    queries = jax.tree.map(lambda leaf: leaf[:, start:stop], given.queries)
    return given._replace(queries=queries, mask=mask)


def key_prefix(given: Conditions, stop: int) -> Conditions:
    """Returns the conditions for the keys before stop."""
    mask = given.mask
    if mask is not None and mask.shape[3] > 1:
        mask = mask[..., :stop]
    return given._replace(keys=jax.tree.map(lambda leaf: leaf[:, :stop], given.keys), mask=mask)


def both_segments(
    shape: tuple[int, int, int, int],
    segment_ids: Int[Array, "b t"] | None,
    key_segment_ids: Int[Array, "b s"] | None,
) -> tuple[Int[Array, "b t"] | None, Int[Array, "b s"] | None]:
    """Returns the ids of queries and keys; raises ValueError for one side only, or wrong shapes."""
    b, _, t, s = shape
    if segment_ids is not None and key_segment_ids is None and t == s:
        key_segment_ids = segment_ids
    if (segment_ids is None) != (key_segment_ids is None):
        missing = "segment_ids" if segment_ids is None else "key_segment_ids"
        raise ValueError(f"{missing} is missing: with {t=} queries and {s=} keys both are needed")
    for name, ids, length in (
        ("segment_ids", segment_ids, t),
        ("key_segment_ids", key_segment_ids, s),
    ):
        if ids is not None and ids.shape != (b, length):
            raise ValueError(f"{name} has shape {ids.shape}, not {(b, length)}")
    return segment_ids, key_segment_ids


def _query_index(b: int, t: int, query_offset) -> Int[Array, "#b t"]:
    offset = jnp.asarray(0 if query_offset is None else query_offset, dtype=jnp.int32)
    if offset.ndim > 1 or (offset.ndim == 1 and offset.shape[0] != b):
        raise ValueError(f"query_offset has shape {offset.shape}: an int, or one for each of {b}")
    return offset.reshape(-1, 1) + jnp.arange(t, dtype=jnp.int32)[None, :]
