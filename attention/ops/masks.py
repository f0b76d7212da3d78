"""Which query may see which key. Masks are boolean, and True means "may attend", everywhere."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class Conditions(NamedTuple):
    """All that decides who sees whom; every condition must hold.

    The fields keep their query axis apart from their key axis, so that a block of queries is a
    slice of each.
    """

    mask: Bool[Array, "#b #n #t #s"] | None
    causal: bool
    query_index: Int[Array, "#b t"]  # the key position at which each query sits
    segment_ids: Int[Array, "b t"] | None
    key_segment_ids: Int[Array, "b s"] | None


def conditions(
    shape: tuple[int, int, int, int],
    *,
    mask: Bool[Array, "#b #n #t #s"] | None = None,
    causal: bool = False,
    query_offset: int | Int[Array, ""] | Int[Array, " b"] | None = None,
    segment_ids: Int[Array, "b t"] | None = None,
    key_segment_ids: Int[Array, "b s"] | None = None,
) -> Conditions:
    """Checks the conditions against the shape (b, n, t, s) of the scores and gathers them.

    Args:
        shape: batch, query heads, queries, keys.
        mask: True = may attend; a padding mask is [b 1 1 s].
        causal: query i sees key j only if j ≤ i + query_offset.
        query_offset: the key position of query 0; None means 0 where t = s.
        segment_ids: equal ids see each other; 0 is padding, and sees and is seen by nothing.
        key_segment_ids: those of the keys; `segment_ids` where t = s.

    Raises:
        ValueError: a mask that is not boolean, not of rank 4 or does not fit; causal with t ≠ s and
            no offset; segment ids of one side only, or of the wrong shape.
    """
    b, _, t, s = shape
    check_mask(mask, shape)
    if causal and query_offset is None and t != s:
        raise ValueError(
            f"causal attention of {t} queries over {s} keys needs query_offset: "
            f"the key position at which the first query sits"
        )
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
    return Conditions(mask, causal, _query_index(b, t, query_offset), segment_ids, key_segment_ids)


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


def visible(given: Conditions, num_keys: int) -> Bool[Array, "#b #n #t s"] | None:
    """Returns which key each query may see; None where every query sees every key."""
    parts = []
    if given.causal:
        key_index = jnp.arange(num_keys, dtype=jnp.int32)[None, None, None, :]
        parts.append(key_index <= given.query_index[:, None, :, None])
    if given.segment_ids is not None and given.key_segment_ids is not None:
        query_ids = given.segment_ids[:, None, :, None]
        parts.append((query_ids == given.key_segment_ids[:, None, None, :]) & (query_ids != 0))
    if given.mask is not None:
        parts.append(given.mask)
    if not parts:
        return None
    together = parts[0]
    for part in parts[1:]:
        together = together & part
    return together


def _query_index(b: int, t: int, query_offset) -> Int[Array, "#b t"]:
    offset = jnp.asarray(0 if query_offset is None else query_offset, dtype=jnp.int32)
    if offset.ndim > 1 or (offset.ndim == 1 and offset.shape[0] != b):
        raise ValueError(f"query_offset has shape {offset.shape}: an int, or one for each of {b}")
    return offset.reshape(-1, 1) + jnp.arange(t, dtype=jnp.int32)[None, :]
