"""The layer of cross-attention whose queries follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core import ordered, padding
from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.core.settings import LayerSettings
from attention.errors import UserError
from attention.ops import masks
from attention.ops.own_array import OwnArray
from attention.ops.products import value_product

if TYPE_CHECKING:
    from attention.core.aligned import AlignedVariant


class AlignmentCache(NamedTuple):
    """What step-by-step decoding carries; the batch leads every leaf, so beams are indexed.

    Attributes:
        alignment: what the next query starts from.
        key, value: of the context; no step changes them.
        position, max_length, overflow: see `ordered.Reach`.
        real: see `ContextCache`.
    """

    alignment: Float[Array, "b n s"]
    key: Float[Array, "b s n h"]
    value: Float[Array, "b s n h"]
    position: Int[Array, " b"]
    max_length: Int[Array, " b"]
    overflow: Bool[Array, " b"]
    real: Bool[Array, "b s"] | None = None


class AlignedLayer(nnx.Module):
    """Projections, heads, dropout and a carried alignment around one mechanism."""

    def __init__(
        self,
        variant: AlignedVariant,
        config: Any,
        settings: LayerSettings,
        *,
        rngs: nnx.Rngs,
    ):
        self.variant = variant
        self.config = config
        self.settings = settings
        width = settings.num_heads * settings.head_dim
        self.query = Linear(settings.dim, width, rngs=rngs)
        self.key = Linear(settings.context_dim, width, rngs=rngs)
        self.value = Linear(settings.context_dim, width, rngs=rngs)
        self.out = Linear(width, settings.dim, rngs=rngs)
        self.own = nnx.Dict(
            {
                array.name: nnx.Param(array.init(rngs.params(), self._shape(array), jnp.float32))
                for array in variant.parts(config, head_dim=settings.head_dim).own_arrays
            }
        )
        self.dropout = Dropout(settings.dropout_rate)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Attends from x, in order, to the context.

        Args:
            x: the sequence that asks.
            context: the sequence that is read; it must be given.
            mask: True = may attend; a padding mask is [b 1 1 s].
            segment_ids: examples packed in a row, each a stretch that begins anew; 0 is padding.
            context_segment_ids: those of the context; `segment_ids` where t = s.
            positions: not looked at.
            rngs: for dropout and noise, stream "dropout"; None = deterministic.

        Raises:
            ValueError: a mask or ids that do not fit; no context.
        """
        context = self._needed(context)
        aligned, clean = self._align(
            *(x, context),
            mask=mask,
            segment_ids=segment_ids,
            context_segment_ids=context_segment_ids,
            rngs=rngs,
        )
        drop = self.dropout.draw(rngs)
        weights = aligned.weights if drop is None else drop(aligned.weights)
        return self._joined(weights, self._heads(self.value, clean))

    def weights(
        self,
        x: Float[Array, "b t d"],
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
    ) -> Float[Array, "b n t s"]:
        """Returns the attention weights of a call with the same arguments, without dropout."""
        aligned, _ = self._align(
            *(x, self._needed(context)),
            mask=mask,
            segment_ids=segment_ids,
            context_segment_ids=context_segment_ids,
            rngs=None,
        )
        return aligned.weights

    def init_cache(
        self,
        batch: int,
        max_length: int,
        *,
        context: Float[Array, "b s c"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
    ) -> AlignmentCache:
        """Returns the cache before the first of up to max_length queries of `batch` sequences.

        Args:
            batch, max_length: see above.
            context: the sequence that will be read.
            context_segment_ids: 0 is padding, which no step reads, whatever it holds; the rest
                holds ordinary numbers, and all of it does where this is None.

        Raises:
            UserError: no context, or one of another batch.
        """
        context, real = padding.real_context(batch, self._needed(context), context_segment_ids)
        settings = self.settings
        return AlignmentCache(
            self.variant.first(batch, settings.num_heads, context.shape[1]),
            self._heads(self.key, context),
            self._heads(self.value, context),
            *ordered.start(batch, max_length),
            real,
        )

    def decode(
        self,
        x: Float[Array, "b t d"],
        cache: AlignmentCache,
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> tuple[Float[Array, "b t d"], AlignmentCache]:
        """Attends from the next t queries to the context that the cache was made with.

        Args:
            x: the next queries, one or more.
            cache: what `init_cache` or the last call returned.
            context: may be left out: the cache has its keys and values, and it is not read again.
            mask: True = may attend; its keys are the context's.
            rngs: for dropout and noise, where these are steps of training; None = deterministic.

        Raises:
            ValueError: past the cache's max_length (inside jit: `cache.overflow`); a context of
                another length.
        """
        key, value = cache.key, cache.value
        if context is not None and context.shape[:2] != key.shape[:2]:
            raise UserError(
                f"the context has batch and length {context.shape[:2]}, and the cache was made for "
                f"one of {key.shape[:2]}"
            )
        b, t, _ = x.shape
        reach = ordered.Reach(cache.position, cache.max_length, cache.overflow)
        reach, fits, _ = ordered.advance(reach, t, mask=None)
        shape = (b, self.settings.num_heads, t, key.shape[1])
        masks.check_mask(mask, shape)
        mask = padding.real_keys(mask, cache.real)
        # A query that does not fit sees nothing, and so leaves the alignment as it is.
        seen = fits[:, None, :, None] if mask is None else mask & fits[:, None, :, None]
        given = masks.conditions(shape, mask=seen)
        aligned = self.variant.run(
            self.config,
            self._heads(self.query, x),
            key,
            given,
            previous=cache.alignment,
            arrays=self._arrays(),
            rngs=rngs,
        )
        drop = self.dropout.draw(rngs)
        weights = aligned.weights if drop is None else drop(aligned.weights)
        if cache.real is None:
            value = masks.blanked(value, masks.seen_keys(given))
        return self._joined(weights, value), AlignmentCache(
            aligned.last, cache.key, cache.value, *reach, cache.real
        )

    def _align(self, x, context, *, mask, segment_ids, context_segment_ids, rngs):
        """Returns the weights and the alignment, and the context without what padding holds."""
        x, clean = padding.without_padding(
            *(x, context, self.settings.num_heads),
            mask=mask,
            segment_ids=segment_ids,
            context_segment_ids=context_segment_ids,
        )
        q, k = self._heads(self.query, x), self._heads(self.key, clean)
        given = masks.conditions(
            (*(q.shape[0], q.shape[2], q.shape[1]), k.shape[1]),
            mask=mask,
            segment_ids=segment_ids,
            key_segment_ids=context_segment_ids,
        )
        arrays = self._arrays()
        aligned = self.variant.run(
            self.config, q, k, given, previous=None, arrays=arrays, rngs=rngs
        )
        return aligned, clean

    def _needed(self, context: Array | None) -> Array:
        if context is None:
            raise UserError(
                f"variant {self.variant.name!r} attends from one sequence to another: give its "
                f"layer the other one, context="
            )
        return context

    def _joined(self, weights, value):
        heads = weighed(weights, value)
        return self.out(heads.reshape(*heads.shape[:2], self.out.kernel.shape[0]))

    def _arrays(self) -> dict[str, Array]:
        return {name: parameter[...] for name, parameter in self.own.items()}

    def _heads(self, project: Linear, x):
        y = project(x.astype(self.settings.dtype))
        return y.reshape(*y.shape[:2], self.settings.num_heads, self.settings.head_dim)

    def _shape(self, array: OwnArray) -> tuple[int, ...]:
        settings = self.settings
        sizes = {"n": settings.num_heads, "h": settings.head_dim}
        sizes |= self.variant.sizes(self.config)
        return tuple(sizes[letter] for letter in array.axes.split())


def weighed(
    weights: Float[Array, "b n t s"], v: Float[Array, "b s k h_v"]
) -> Float[Array, "b t n h_v"]:
    """Returns Σ weight · value, in the type of the values."""
    v = jnp.repeat(v, weights.shape[1] // v.shape[2], axis=2)
    return value_product(weights.astype(v.dtype), v).astype(v.dtype)
