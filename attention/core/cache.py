"""The keys and values of the tokens decoded so far.

Caches have the heads before the tokens, as products over a head's tokens read them: with the tokens
first, each step would begin by copying the whole cache into that order.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from attention.errors import UserError

# A place after every query: causal attention never sees it.
NOWHERE = 2**30


class KeyValueCache(NamedTuple):
    """What step-by-step decoding carries; the batch leads every leaf, so beams are indexed.

    With as many slots as tokens, slot j holds position j. With fewer, which is enough for a window,
    the slots hold the newest tokens in order, the last one in the last slot.

    Attributes:
        key: the keys, rotated where positions are rotary.
        value: the values.
        position: the number of tokens each row has; where its next one goes.
        max_length: the most tokens a row may have.
        overflow: True once a row was given more than that: its outputs since then are not to be
            used.
    """

    key: Float[Array, "b k s h"]
    value: Float[Array, "b k s h"]
    position: Int[Array, " b"]
    max_length: Int[Array, " b"]
    overflow: Bool[Array, " b"]


class ContextCache(NamedTuple):
    """The keys and values of another sequence, which every step attends to.

    Attributes:
        key, value: of the other sequence.
        position, max_length, overflow: as in `KeyValueCache`.
        real: which tokens of the other sequence are no padding, which was then blanked when the
            cache was made; None = nothing is known.
    """

    key: Float[Array, "b k s h"]
    value: Float[Array, "b k s h"]
    position: Int[Array, " b"]
    max_length: Int[Array, " b"]
    overflow: Bool[Array, " b"]
    real: Bool[Array, "b s"] | None = None


class Extended(NamedTuple):
    """A cache with more tokens, and all keys that the new tokens may see."""

    cache: KeyValueCache
    key: Float[Array, "b s k h"]
    value: Float[Array, "b s k h"]
    index: Int[Array, "#b s"]  # the place of each key


def empty_cache(
    batch: int,
    max_length: int,
    kv_heads: int,
    head_dim: int,
    dtype: jnp.dtype,
    *,
    value_dim: int | None = None,
    reach: int | None = None,
) -> KeyValueCache:
    """Returns a cache without tokens and with room for max_length of them in each row.

    Args:
        batch, max_length, kv_heads, head_dim, dtype: sizes and type; value_dim=None means head_dim.
        reach: how far back a query sees; None = to the start.
    """
    num_slots = max_length if reach is None else min(reach, max_length)
    return KeyValueCache(
        jnp.zeros((batch, kv_heads, num_slots, head_dim), dtype),
        jnp.zeros((batch, kv_heads, num_slots, value_dim or head_dim), dtype),
        **empty_position(batch, max_length),
    )


def empty_position(batch: int, max_length: int) -> dict[str, Array]:
    """Returns position, max_length and overflow of rows without tokens."""
    return {
        "position": jnp.zeros((batch,), jnp.int32),
        "max_length": jnp.full((batch,), max_length, jnp.int32),
        "overflow": jnp.zeros((batch,), jnp.bool_),
    }


def extend(
    cache: KeyValueCache,
    key: Float[Array, "b t k h"],
    value: Float[Array, "b t k h"],
    *,
    rolling: bool = False,
) -> Extended:
    """Returns the cache with t more tokens in each row.

    Args:
        cache: the tokens so far.
        key, value: those of the new ones.
        rolling: the cache keeps the newest tokens only, for a window.

    Raises:
        UserError: they do not fit. Inside jit, where the position is not known, the tokens that do
            not fit are left out, and `overflow` is set.
    """
    num_new = key.shape[1]
    end = cache.position + num_new
    _check_room(cache, num_new, end)
    overflow = cache.overflow | (end > cache.max_length)
    key, value = key.astype(cache.key.dtype), value.astype(cache.value.dtype)
    if rolling:
        return _roll(cache, key, value, end, overflow)
    num_slots = cache.key.shape[2]
    row = jnp.arange(key.shape[0], dtype=jnp.int32)[:, None]
    slot = cache.position[:, None] + jnp.arange(num_new, dtype=jnp.int32)[None, :]
    extended = cache._replace(
        # "drop": the default would clamp, and write over the last token.
        key=cache.key.at[row, :, slot].set(key, mode="drop"),
        value=cache.value.at[row, :, slot].set(value, mode="drop"),
        position=end,
        overflow=overflow,
    )
    index = jnp.arange(num_slots, dtype=jnp.int32)[None, :]
    return Extended(extended, *tokens_first(extended), index)


def tokens_first(
    cache: KeyValueCache | ContextCache,
) -> tuple[Float[Array, "b s k h"], Float[Array, "b s k h"]]:
    """Returns the keys and values as `attend` takes them."""
    return jnp.swapaxes(cache.key, 1, 2), jnp.swapaxes(cache.value, 1, 2)


def heads_first(tokens: Float[Array, "b s k h"]) -> Float[Array, "b k s h"]:
    """Returns keys or values as caches have them."""
    return jnp.swapaxes(tokens, 1, 2)


Kept = TypeVar("Kept", KeyValueCache, ContextCache)


def advance(cache: Kept, num_new: int) -> Kept:
    """Returns the cache t tokens further, with none of them kept: those of another sequence do.

    Raises:
        UserError: they do not fit; inside jit, `overflow` is set.
    """
    end = cache.position + num_new
    _check_room(cache, num_new, end)
    return cache._replace(position=end, overflow=cache.overflow | (end > cache.max_length))


def _roll(cache: KeyValueCache, key, value, end, overflow) -> Extended:
    num_slots, num_new = cache.key.shape[2], key.shape[1]
    keys = jnp.concatenate([cache.key, heads_first(key)], axis=2)
    values = jnp.concatenate([cache.value, heads_first(value)], axis=2)
    index = jnp.arange(-num_slots, num_new, dtype=jnp.int32)[None, :] + cache.position[:, None]
    fits = (end <= cache.max_length)[:, None, None, None]
    extended = cache._replace(
        key=jnp.where(fits, keys[:, :, num_new:], cache.key),
        value=jnp.where(fits, values[:, :, num_new:], cache.value),
        position=end,
        overflow=overflow,
    )
    seen = cache._replace(key=keys, value=values)
    return Extended(extended, *tokens_first(seen), jnp.where(index < 0, NOWHERE, index))


def _check_room(cache: KeyValueCache | ContextCache, num_new: int, end: Int[Array, " b"]) -> None:
    too_long = end > cache.max_length
    if not isinstance(too_long, Tracer) and jnp.any(too_long):
        raise UserError(
            f"decoding {num_new} more after position {int(jnp.max(cache.position))} goes past the "
            f"cache's max_length={int(jnp.min(cache.max_length))}: make the cache longer, or stop "
            "earlier"
        )
