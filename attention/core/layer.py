"""The attention layer: what all exact variants share around their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention import positions as position_schemes
from attention.core import attending, padding, stepping
from attention.core.cache import ContextCache, KeyValueCache, advance, empty_cache
from attention.core.dropout import Dropout
from attention.core.exact import ExactConfig
from attention.core.head_norm import HeadNorm
from attention.core.linear import Linear
from attention.core.settings import LayerSettings
from attention.errors import UserError
from attention.ops import segments
from attention.ops.own_array import OwnArray

if TYPE_CHECKING:
    from attention.core.exact_variant import ExactVariant


class AttentionLayer(nnx.Module):
    """Projections, heads, positions, dropout and cache around one exact mechanism.

    A variant with a layer of its own overrides `learned` and `own_arrays` (what its parts need), or
    `make_projections`, `queries`, `keys`, `values` and `joined` (what comes before and after).
    """

    def __init__(
        self,
        variant: ExactVariant,
        config: ExactConfig,
        settings: LayerSettings,
        *,
        rngs: nnx.Rngs,
    ):
        """Raises UserError if the sizes do not fit each other."""
        self.config = config
        self.settings = settings
        self.decodes = variant.decodes
        self.kv_heads = config.kv_heads(settings.num_heads)
        self.make_projections(rngs)
        self.position = position_schemes.make(
            settings.position,
            self.position_width,
            num_heads=settings.num_heads,
            max_length=settings.max_length,
            causal=settings.causal,
            rngs=rngs,
        )
        self.parts = variant.parts(
            config, causal=settings.causal, relative=self.position.relative()
        )
        self.own = nnx.Dict(
            {
                array.name: nnx.Param(array.init(rngs.params(), self._shape(array), jnp.float32))
                for array in self.learned()
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
        x, context = self.without_padding(x, context, mask, segment_ids, context_segment_ids)
        q, k = self.queries_and_keys(x, context, segment_ids, positions)
        heads = attending.attend(
            self.parts,
            q,
            k,
            self.values(x, context),
            arrays=self.arrays(),
            mask=mask,
            causal=self.settings.causal,
            segment_ids=segment_ids,
            key_segment_ids=context_segment_ids,
            positions=None if context is not None else positions,
            implementation=self.config.implementation,
            block_size=self.config.block_size,
            drop=self.dropout.draw(rngs),
            blanked=True,
        )
        return self.joined(heads, x)

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
        x, context = self.without_padding(x, context, mask, segment_ids, context_segment_ids)
        q, k = self.queries_and_keys(x, context, segment_ids, positions)
        return attending.weights(
            self.parts,
            q,
            k,
            arrays=self.arrays(),
            mask=mask,
            causal=self.settings.causal,
            segment_ids=segment_ids,
            key_segment_ids=context_segment_ids,
            positions=None if context is not None else positions,
        )

    def init_cache(
        self,
        batch: int,
        max_length: int,
        *,
        context: Float[Array, "b s c"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
    ) -> KeyValueCache | ContextCache:
        """Returns the cache of `batch` sequences before the first of up to max_length tokens.

        Args:
            batch, max_length: sizes.
            context: the other sequence that all steps attend to: its keys and values are then made
                once, here.
            context_segment_ids: 0 is padding, which no step attends to, whatever it holds; the
                rest holds ordinary numbers. None = masks say what is hidden.

        Raises:
            UserError: the variant cannot decode, or not over this context.
        """
        self.check_decodes()
        if context is not None:
            return stepping.context_cache(self, batch, max_length, context, context_segment_ids)
        return self.empty_cache(batch, max_length)

    def decode(
        self,
        x: Float[Array, "b t d"],
        cache: Any,
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
    ) -> tuple[Float[Array, "b t d"], Any]:
        """Attends from the next t tokens to all tokens up to each, or to the context.

        Args:
            x: the next tokens, one or more.
            cache: what `init_cache` or the last call returned.
            context: the other sequence, if the cache was not made of it.
            mask: True = may attend; its keys are the tokens from the first on (or the context's);
                those past its end are not attended to.

        Raises:
            ValueError: past the cache's max_length (inside jit: `cache.overflow`); no context and
                the layer is not causal; the variant cannot decode.
        """
        self.check_decodes()
        if isinstance(cache, ContextCache):
            return stepping.over_context(self, x, cache, mask)
        if context is not None:
            return self(x, context=context, mask=mask), advance(cache, x.shape[1])
        return stepping.over_own_tokens(self, x, cache, mask)

    # -- what a variant may change -----------------------------------------------------------------

    def make_projections(self, rngs: nnx.Rngs) -> None:
        """Makes what maps the input to queries, keys and values, and the heads to the output."""
        settings, kind = self.settings, self.config.qk_norm
        width = settings.num_heads * settings.head_dim
        kv_width = self.kv_heads * settings.head_dim
        self.query = Linear(settings.dim, width, rngs=rngs)
        self.key: Linear | None = Linear(settings.context_dim, kv_width, rngs=rngs)
        self.value = Linear(settings.context_dim, kv_width, rngs=rngs)
        self.out = Linear(width, settings.dim, rngs=rngs)
        normed = kind != "none"
        self.query_norm = HeadNorm(settings.head_dim, kind=kind) if normed else None
        self.key_norm = HeadNorm(settings.head_dim, kind=kind) if normed else None

    @property
    def position_width(self) -> int:
        """The size of the vectors that positions act on."""
        return self.settings.head_dim

    def learned(self) -> tuple[OwnArray, ...]:
        """Returns which arrays of the parts are parameters."""
        return self.parts.own_arrays

    def own_arrays(self) -> dict[str, Array]:
        """Returns the arrays of the parts, those of positions apart."""
        return {name: parameter[...] for name, parameter in self.own.items()}

    def queries(
        self, x: Float[Array, "b t d"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t n h"]:
        """Returns what x asks with, normed and rotated where that is so."""
        q = self._heads(self.query, x)
        q = q if self.query_norm is None else self.query_norm(q)
        return self.position.rotate(q, positions)

    def keys(
        self, x: Float[Array, "b s c"], positions: Int[Array, "#b s"] | None
    ) -> Float[Array, "b s k h"]:
        """Returns what x is found by; positions are None for another sequence."""
        # A variant without keys of its own (`tie_qk`) makes them as it makes queries.
        k = self._heads(self.key or self.query, x)
        k = k if self.key_norm is None else self.key_norm(k)
        return k if positions is None else self.position.rotate(k, positions)

    def queries_and_keys(self, x, context, segment_ids, positions):
        """Returns q [b t n h] of x and k [b s k h] of x or of the context."""
        self.check_context(context)
        positions = segments.checked_positions(positions, x.shape[:2], segment_ids)
        keys = self.keys(x, positions) if context is None else self.keys(context, None)
        return self.queries(x, positions), keys

    def empty_cache(self, batch: int, max_length: int) -> KeyValueCache:
        """Returns the cache of a layer that attends to its own sequence, without tokens."""
        settings = self.settings
        size, reach = settings.head_dim, self.reach
        return empty_cache(batch, max_length, self.kv_heads, size, settings.dtype, reach=reach)

    def values(self, x, context):
        """Returns v [b s k h_v]."""
        return self._heads(self.value, x if context is None else context)

    def check_decodes(self) -> None:
        """Raises UserError for a variant that takes whole sequences only."""
        if not self.decodes:
            name = type(self.config).__module__.rpartition(".")[2]
            raise UserError(
                f"variant {name!r} cannot decode: choose one with the mode 'decode', such as "
                f"sliding_window"
            )

    def check_context(self, context: Array | None) -> None:
        """Raises UserError for another sequence that the layer was not made for."""
        if context is not None:
            self.check_crosses()

    def check_crosses(self) -> None:
        """Raises UserError for a layer that cannot attend to another sequence."""
        if self.settings.causal:
            raise UserError("cross-attention has no order: make its layer with causal=False")
        name = position_schemes.name_of(self.settings.position)
        if name != "none":
            raise UserError(
                f"position={name!r} means nothing between two sequences: "
                f"make layers for cross-attention with position=None"
            )
        if self.parts.pattern is not None:
            raise UserError(
                "who sees whom by place (model.attention.window) means nothing between two "
                "sequences: set it to None"
            )

    def joined(
        self, heads: Float[Array, "b t n h"], x: Float[Array, "b t d"]
    ) -> Float[Array, "b t d"]:
        """Returns the layer's output from what the heads gave for x."""
        return self.out(jax.lax.collapse(heads, 2, 4))

    # -- what it need not --------------------------------------------------------------------------

    def without_padding(self, x, context, mask, segment_ids, context_segment_ids):
        """Returns x and the context with nothing harmful in padding."""
        return padding.without_padding(
            *(x, context, self.settings.num_heads),
            mask=mask,
            segment_ids=segment_ids,
            context_segment_ids=context_segment_ids,
        )

    @property
    def reach(self) -> int | None:
        """How far back a query sees; None = to the start."""
        return getattr(self.parts.pattern, "reach", None)

    def arrays(self) -> dict[str, Array]:
        """Returns all that the parts need besides queries, keys and values."""
        return {**self.own_arrays(), **self.position.arrays()}

    def _heads(self, project: Linear, x):
        y = project(x.astype(self.settings.dtype))
        size = self.settings.head_dim  # −1 would not do for empty arrays
        return y.reshape(*y.shape[:2], y.shape[2] // size, size)

    def _shape(self, array) -> tuple[int, ...]:
        settings = self.settings
        sizes = {"n": settings.num_heads, "k": self.kv_heads, "h": settings.head_dim}
        return tuple(sizes[letter] for letter in array.axes.split())
