"""What layers share that read their input in order: what they refuse, how far a cache reaches.

They have no weights, so a mask can only hide keys from all queries: [b 1 1 s].
"""

from typing import NamedTuple, NoReturn

import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Int

from attention.core.settings import LayerSettings
from attention.errors import UserError
from attention.ops.masks import check_mask


def refuse_context(variant: str, *given: Array | None) -> None:
    """Raises UserError if the layer is given another sequence, or its ids."""
    if any(array is not None for array in given):
        raise UserError(
            f"variant {variant!r} reads one sequence and has no cross-attention: leave out context "
            f"and context_segment_ids, or choose a variant with the mode 'cross'"
        )


def check_causal(settings: LayerSettings) -> None:
    """Raises UserError for a layer to decode with that looks ahead."""
    if not settings.causal:
        raise UserError("decoding needs a causal layer: make it with causal=True")


def refuse_weights(variant: str) -> NoReturn:
    """Raises UserError for the weights of a layer that does not weigh its input."""
    raise UserError(
        f"variant {variant!r} has no attention weights: it reads its input in order, and weighs no "
        f"key for a query; choose a variant that attends"
    )


def visible_keys(
    shape: tuple[int, int],
    *,
    mask: Bool[Array, "#b 1 1 #s"] | None,
    segment_ids: Int[Array, "b t"] | None = None,
) -> Bool[Array, "b s"]:
    """Returns which keys may be read at all.

    Args:
        shape: batch and number of keys.
        mask: True = may be read.
        segment_ids: 0 is padding, and is not read.

    Raises:
        ValueError: a mask that is not boolean and [b 1 1 s], or ids of another shape.
    """
    b, s = shape
    check_mask(mask, (b, 1, 1, s))
    if segment_ids is not None and segment_ids.shape != shape:
        raise ValueError(f"segment_ids has shape {segment_ids.shape}, not {shape}")
    keys = jnp.ones(shape, jnp.bool_)
    if mask is not None:
        keys = keys & mask[:, 0, 0, :]
    return keys if segment_ids is None else keys & (segment_ids != 0)


class Reach(NamedTuple):
    """How far each row has been decoded; the batch leads every leaf.

    Attributes:
        position: tokens given so far; where the next one goes.
        max_length: the most there may be.
        overflow: True once more were given: outputs since then are not to be used.
    """

    position: Int[Array, " b"]
    max_length: Int[Array, " b"]
    overflow: Bool[Array, " b"]


def start(batch: int, max_length: int) -> Reach:
    """Returns the reach of rows without tokens."""
    zeros = jnp.zeros((batch,), jnp.int32)
    return Reach(zeros, jnp.full((batch,), max_length, jnp.int32), jnp.zeros((batch,), jnp.bool_))


def advance(
    reach: Reach, num_new: int, *, mask: Bool[Array, "#b 1 1 #s"] | None
) -> tuple[Reach, Bool[Array, "b t"], Bool[Array, "b t"]]:
    """Returns the reach after num_new more tokens, which of them fit, and which may be read.

    Args:
        reach: before them.
        num_new: tokens t.
        mask: True = may be read; its keys are all tokens from position 0 on, and tokens past its
            end may not be read.

    Raises:
        ValueError: a mask that is not [b 1 1 s].
        UserError: the tokens do not fit. Inside jit, where the position is not known, those that
            do not fit are left out, and `overflow` is set.
    """
    end = reach.position + num_new
    if not isinstance(end, Tracer) and jnp.any(end > reach.max_length):
        raise UserError(
            f"decoding {num_new} more after position {int(jnp.max(reach.position))} goes past the "
            f"cache's max_length={int(jnp.min(reach.max_length))}: make the cache longer, or stop "
            f"earlier"
        )
    index = reach.position[:, None] + jnp.arange(num_new, dtype=jnp.int32)[None, :]
    fits = index < reach.max_length[:, None]
    readable = fits
    if mask is not None:
        num_keys = mask.shape[-1] if mask.ndim else 1
        keys = visible_keys((index.shape[0], num_keys), mask=mask)
        if num_keys == 1:  # one value for all keys
            readable = fits & keys
        else:
            last = jnp.minimum(index, num_keys - 1)
            shown = jnp.take_along_axis(keys, last, axis=1) & (index < num_keys)
            readable = fits & shown
    overflow = reach.overflow | (end > reach.max_length)
    return Reach(end, reach.max_length, overflow), fits, readable
