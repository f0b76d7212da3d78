"""Attention of the next tokens of a sequence: to those so far, or to another sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention.core import attending, ordered, padding
from attention.core.cache import (
    ContextCache,
    KeyValueCache,
    advance,
    empty_position,
    extend,
    heads_first,
    tokens_first,
)

if TYPE_CHECKING:
    from attention.core.layer import AttentionLayer

Mask = Bool[Array, "#b #n #t #s"]


def over_own_tokens(
    layer: AttentionLayer, x: Float[Array, "b t d"], cache: KeyValueCache, mask: Mask | None
) -> tuple[Float[Array, "b t d"], KeyValueCache]:
    """Attends from the next t tokens to all tokens up to each; see `AttentionLayer.decode`."""
    ordered.check_causal(layer.settings)
    offset = cache.position
    steps = offset[:, None] + jnp.arange(x.shape[1], dtype=jnp.int32)[None, :]
    key, value = layer.keys(x, steps), layer.values(x, None)
    extended = extend(cache, key, value, rolling=layer.reach is not None)
    heads = attending.attend(
        layer.parts,
        layer.queries(x, steps),
        extended.key,
        extended.value,
        arrays=layer.arrays(),
        mask=over_keys(mask, extended.index),
        causal=True,
        query_offset=offset,
        key_index=extended.index,
        implementation="plain",
    )
    return layer.joined(heads, x), extended.cache


def context_cache(
    layer: AttentionLayer,
    batch: int,
    max_length: int,
    context: Float[Array, "b s c"],
    context_segment_ids: Int[Array, "b s"] | None,
) -> ContextCache:
    """Returns the keys and values of another sequence, for all steps."""
    layer.check_context(context)
    context, real = padding.real_context(batch, context, context_segment_ids)
    keys, values = layer.keys(context, None), layer.values(context, context)
    return ContextCache(
        heads_first(keys), heads_first(values), **empty_position(batch, max_length), real=real
    )


def over_context(
    layer: AttentionLayer, x: Float[Array, "b t d"], cache: ContextCache, mask: Mask | None
) -> tuple[Float[Array, "b t d"], ContextCache]:
    """Attends from the next t tokens to the sequence that the cache was made of."""
    steps = cache.position[:, None] + jnp.arange(x.shape[1], dtype=jnp.int32)[None, :]
    heads = attending.attend(
        layer.parts,
        layer.queries(x, steps),
        *tokens_first(cache),
        arrays=layer.arrays(),
        mask=padding.real_keys(mask, cache.real),
        implementation="plain",
        blanked=cache.real is not None,
    )
    return layer.joined(heads, x), advance(cache, x.shape[1])


def over_keys(mask, index: Int[Array, "#b s"]):
    """Brings a mask over the tokens so far to the keys there are, given the place of each."""
    if mask is None or mask.ndim != 4 or mask.shape[3] == 1:
        return mask
    known = index < mask.shape[3]
    at = jnp.where(known, index, 0)
    mask = jnp.broadcast_to(mask, (max(mask.shape[0], at.shape[0]), *mask.shape[1:]))
    at = jnp.broadcast_to(at[:, None, None, :], (mask.shape[0], 1, 1, at.shape[1]))
    return jnp.take_along_axis(mask, at, axis=3) & known[:, None, None, :]
