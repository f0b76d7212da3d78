"""The keys and values of the tokens decoded so far."""

from typing import NamedTuple

import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from attention.errors import UserError


class KeyValueCache(NamedTuple):
    """What step-by-step decoding carries; the batch leads every leaf, so beams are indexed.

    Attributes:
        key: the keys, rotated where positions are rotary; slot j holds position j.
        value: the values.
        position: the number of tokens each row has; where its next one goes.
        overflow: True once a row was given more tokens than there are slots: its outputs since then
            are not to be used.
    """

    key: Float[Array, "b s k h"]
    value: Float[Array, "b s k h"]
    position: Int[Array, " b"]
    overflow: Bool[Array, " b"]


def empty_cache(
    batch: int, max_length: int, kv_heads: int, head_dim: int, dtype: jnp.dtype
) -> KeyValueCache:
    """Returns a cache without tokens and with room for max_length of them in each row."""
    slots = jnp.zeros((batch, max_length, kv_heads, head_dim), dtype)
    start = jnp.zeros((batch,), jnp.int32)
    return KeyValueCache(slots, slots, start, jnp.zeros((batch,), jnp.bool_))


def extend(
    cache: KeyValueCache, key: Float[Array, "b t k h"], value: Float[Array, "b t k h"]
) -> KeyValueCache:
    """Returns the cache with t more tokens in each row.

    Raises:
        UserError: they do not fit. Inside jit, where the position is not known, the tokens that do
            not fit are left out, and `overflow` is set.
    """
    num_slots, num_new = cache.key.shape[1], key.shape[1]
    end = cache.position + num_new
    if not isinstance(end, Tracer) and jnp.any(end > num_slots):
        raise UserError(
            f"decoding {num_new} more after position {int(jnp.max(cache.position))} goes past the "
            f"cache's max_length={num_slots}: make the cache longer, or stop earlier"
        )
    row = jnp.arange(key.shape[0])[:, None]
    slot = cache.position[:, None] + jnp.arange(num_new, dtype=jnp.int32)[None, :]
    # "drop": the default would clamp, and write over the last token.
    return KeyValueCache(
        cache.key.at[row, slot].set(key.astype(cache.key.dtype), mode="drop"),
        cache.value.at[row, slot].set(value.astype(cache.value.dtype), mode="drop"),
        end,
        cache.overflow | (end > num_slots),
    )
