"""What padding holds stays out of a layer: its kernels' gradients are xᵀ·dy, and NaN · 0 is NaN."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention.errors import UserError
from attention.ops import masks

# What a hidden position holds is another query's input only below this: then no square overflows.
LARGEST = 1e9


def without_padding(
    x: Float[Array, "b t d"],
    context: Float[Array, "b s c"] | None,
    num_heads: int,
    *,
    mask: Bool[Array, "#b #n #t #s"] | None,
    segment_ids: Int[Array, "b t"] | None,
    context_segment_ids: Int[Array, "b s"] | None = None,
) -> tuple[Float[Array, "b t d"], Float[Array, "b s c"] | None]:
    """Returns x and the context with zeros where they are padding.

    A position of x that only a mask hides may still ask, so it keeps what it holds unless that is
    no number, or as large as no activation is.

    Raises:
        ValueError: a mask or ids that do not fit.
    """
    (b, t), s = x.shape[:2], (x if context is None else context).shape[1]
    shape = (b, num_heads, t, s)
    masks.check_mask(mask, shape)
    ids, key_ids = masks.both_segments(shape, segment_ids, context_segment_ids)
    x = masks.blanked(x, masks.real_tokens(ids, None))
    keys = masks.real_tokens(key_ids, mask)
    if context is not None:
        return x, masks.blanked(context, keys)
    if keys is not None and (mask is not None or context_segment_ids is not None):
        x = jnp.where(keys[:, :, None] | (jnp.abs(x) < LARGEST), x, jnp.zeros((), x.dtype))
    return x, None


def real_context(
    batch: int, context: Float[Array, "b s c"], ids: Int[Array, "b s"] | None
) -> tuple[Float[Array, "b s c"], Bool[Array, "b s"] | None]:
    """Returns a context with zeros for padding, and which of its tokens are none.

    Done once, this saves each step from looking after what padding holds.

    Raises:
        UserError: another batch.
        ValueError: ids of another shape.
    """
    if context.shape[0] != batch:
        raise UserError(f"the context has a batch of {context.shape[0]}, and the cache of {batch}")
    if ids is None:
        return context, None
    if ids.shape != context.shape[:2]:
        raise ValueError(f"context_segment_ids has shape {ids.shape}, not {context.shape[:2]}")
    return masks.blanked(context, ids != 0), ids != 0


def real_keys(
    mask: Bool[Array, "#b #n #t #s"] | None, real: Bool[Array, "b s"] | None
) -> Bool[Array, "#b #n #t #s"] | None:
    """Returns a mask that hides padding too."""
    if real is None:
        return mask
    shown = real[:, None, None, :]
    return shown if mask is None else mask & shown
