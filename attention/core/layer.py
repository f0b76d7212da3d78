"""The attention layer: what all exact variants share around their parts."""

import functools

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention import positions as position_schemes
from attention.core import attend as core
from attention.core.cache import KeyValueCache, empty_cache, extend
from attention.core.dropout import Dropout
from attention.core.exact import ExactConfig
from attention.core.linear import Linear
from attention.core.settings import LayerSettings
from attention.errors import UserError
from attention.ops import segments


class AttentionLayer(nnx.Module):
    """Projections, heads, positions, dropout and cache around one exact mechanism."""

    def __init__(
        self,
        parts: core.Parts,
        config: ExactConfig,
        settings: LayerSettings,
        *,
        rngs: nnx.Rngs,
    ):
        """Raises UserError if the sizes do not fit each other."""
        self.parts = parts
        self.settings = settings
        self.kv_heads = config.kv_heads(settings.num_heads)
        width = settings.num_heads * settings.head_dim
        kv_width = self.kv_heads * settings.head_dim
        self.query = Linear(settings.dim, width, rngs=rngs)
        self.key = Linear(settings.context_dim, kv_width, rngs=rngs)
        self.value = Linear(settings.context_dim, kv_width, rngs=rngs)
        self.out = Linear(width, settings.dim, rngs=rngs)
        self.position = position_schemes.make(
            settings.position or "none",
            settings.head_dim,
            max_length=settings.max_length,
            rngs=rngs,
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
        """Attends from x to itself, or to the context.

        Args:
            x: the sequence.
            context: the other sequence, in cross-attention.
            mask: True = may attend.
            segment_ids: examples packed in a row see themselves only; 0 is padding.
            context_segment_ids: those of the context; `segment_ids` where t = s.
            positions: of x; None = 0, 1, … restarting at each segment.
            rngs: for dropout, stream "dropout"; None = deterministic.

        Raises:
            ValueError: a mask or ids that do not fit; a causal layer or one with positions given a
                context.
        """
        q, k = self._queries_and_keys(x, context, segment_ids, positions)
        v = self._heads(self.value, x if context is None else context)
        heads = core.attend(
            self.parts,
            q,
            k,
            v,
            mask=mask,
            causal=self.settings.causal,
            segment_ids=segment_ids,
            key_segment_ids=context_segment_ids,
            drop=functools.partial(self.dropout, rngs=rngs),
        )
        return self._joined(heads)

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
        q, k = self._queries_and_keys(x, context, segment_ids, positions)
        return core.weights(
            self.parts,
            q,
            k,
            mask=mask,
            causal=self.settings.causal,
            segment_ids=segment_ids,
            key_segment_ids=context_segment_ids,
        )

    def init_cache(self, batch: int, max_length: int) -> KeyValueCache:
        """Returns an empty cache for `batch` sequences of up to max_length tokens."""
        settings = self.settings
        return empty_cache(batch, max_length, self.kv_heads, settings.head_dim, settings.dtype)

    def decode(
        self,
        x: Float[Array, "b t d"],
        cache: KeyValueCache,
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
    ) -> tuple[Float[Array, "b t d"], KeyValueCache]:
        """Attends from the next t tokens to all tokens up to each, or to the context.

        Args:
            x: the next tokens, one or more.
            cache: what `init_cache` or the last call returned.
            context: the other sequence; a layer for cross-attention keeps nothing in the cache but
                the position.
            mask: True = may attend; its keys are the cache's slots from 0 on (or the context's);
                slots past its end are not attended to.

        Raises:
            ValueError: past the cache's max_length (inside jit: `cache.overflow`); no context and
                the layer is not causal.
        """
        settings = self.settings
        if context is not None:
            y = self(x, context=context, mask=mask)
            return y, cache._replace(position=cache.position + x.shape[1])
        if not settings.causal:
            raise UserError("decoding needs a causal layer: make it with causal=True")
        offset = cache.position
        steps = offset[:, None] + jnp.arange(x.shape[1], dtype=jnp.int32)[None, :]
        q = self.position.rotate(self._heads(self.query, x), steps)
        k = self.position.rotate(self._heads(self.key, x), steps)
        cache = extend(cache, k, self._heads(self.value, x))
        heads = core.attend(
            self.parts,
            q,
            cache.key,
            cache.value,
            mask=_over_slots(mask, cache.key.shape[1]),
            causal=True,
            query_offset=offset,
        )
        return self._joined(heads), cache

    def _queries_and_keys(self, x, context, segment_ids, positions):
        if context is not None and self.settings.causal:
            raise UserError("cross-attention has no order: make its layer with causal=False")
        if context is not None and self.settings.position not in (None, "none"):
            raise UserError(
                f"position={self.settings.position!r} means nothing between two sequences: "
                f"make layers for cross-attention with position=None"
            )
        if positions is None:
            positions = segments.default_positions(x.shape[1], segment_ids)
        q = self.position.rotate(self._heads(self.query, x), positions)
        k = self._heads(self.key, x if context is None else context)
        return q, k if context is not None else self.position.rotate(k, positions)

    def _heads(self, project: Linear, x):
        y = project(x.astype(self.settings.dtype))
        return y.reshape(*y.shape[:2], -1, self.settings.head_dim)

    def _joined(self, heads):
        return self.out(heads.reshape(*heads.shape[:2], -1))


def _over_slots(mask, num_slots: int):
    """Extends a mask over the tokens so far to one over all slots of the cache."""
    if mask is None or mask.ndim != 4 or mask.shape[3] in (1, num_slots):
        return mask
    if mask.shape[3] > num_slots:
        return mask  # refused with the shapes by the check of the conditions
    return jnp.pad(mask, ((0, 0), (0, 0), (0, 0), (0, num_slots - mask.shape[3])))
