"""Attention within a window, and to and from some global tokens.

Longformer (Beltagy et al. 2020), arXiv 2004.05150, section 3.1: query i sees key j of its segment
iff −left ≤ j − i ≤ right, or i or j is a global token, the first of each segment unless
`global_mask` says otherwise. What global queries see is computed with projections of their own;
others read global tokens by their ordinary keys and values. Time and memory t·(left + right + g)
per head and t keys for each of g global tokens.

Departs from the paper in nothing but sizes: g is what there is room for in a row of t tokens. With
more global tokens than `max_global_tokens` what would miss some is NaN, never wrong.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core import attending
from attention.core.exact import SECTION, ExactConfig
from attention.core.exact_variant import ALL_POSITIONS, ExactVariant
from attention.core.layer import AttentionLayer
from attention.core.linear import Linear
from attention.core.parts import Parts, Score
from attention.core.settings import LayerSettings
from attention.errors import UserError
from attention.ops import scores, segments
from attention.ops.longformer import Longformer
from attention.ops.option_checks import check_count
from attention.ops.window import make_window

MODES = frozenset({"bidirectional", "packed"})
POSITIONS = ALL_POSITIONS
Queries = Literal["all", "local", "global"]
_BOTH: tuple[Queries, ...] = ("local", "global")


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, of which `window` may not be None, and one more.

    Attributes:
        window: keys seen on each side, w or (left, right), the query itself not counted.
        max_global_tokens: for how many global tokens a row has room; None = all up to 512 tokens,
            beyond that an eighth of the row, 512 at least.

    Raises:
        UserError: a window that is not allowed, or max_global_tokens below 1.
    """

    window: int | tuple[int, int] = field(default=64, metadata={"examples": (1,), "small": (2, 1)})
    max_global_tokens: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        make_window(self.window, causal=False)
        check_count(f"{SECTION}.max_global_tokens", self.max_global_tokens, or_none=True)


class LongformerLayer(AttentionLayer):
    """The layer, with projections of their own for global queries and what they see."""

    def __init__(
        self,
        variant: ExactVariant,
        config: Config,
        settings: LayerSettings,
        *,
        rngs: nnx.Rngs,
    ):
        super().__init__(variant, config, settings, rngs=rngs)
        kv_width = self.kv_heads * settings.head_dim
        width = settings.num_heads * settings.head_dim
        self.query_global = Linear(settings.dim, width, rngs=rngs)
        self.key_global = Linear(settings.dim, kv_width, rngs=rngs)
        self.value_global = Linear(settings.dim, kv_width, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        global_mask: Bool[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Attends from x to itself; see `AttentionLayer`.

        `global_mask` is True for global tokens; None = the first of each segment.
        """
        _refuse_context(context, context_segment_ids)
        x, _ = self.without_padding(x, None, mask, segment_ids, None)
        drop = self.dropout.draw(rngs)
        local, of_global = (
            attending.attend(
                _restricted(self.parts, queries, global_mask),
                *self._projected(queries, x, segment_ids, positions),
                arrays=self.arrays(),
                mask=mask,
                causal=self.settings.causal,
                segment_ids=segment_ids,
                positions=positions,
                implementation=self.config.implementation,
                block_size=self.config.block_size,
                drop=drop and drop.for_block(number),
                blanked=True,
            )
            for number, queries in enumerate(_BOTH)
        )
        # Where the one computes something, the other is zero.
        return self.joined(local + of_global, x)

    def weights(
        self,
        x: Float[Array, "b t d"],
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        global_mask: Bool[Array, "#b t"] | None = None,
    ) -> Float[Array, "b n t s"]:
        """Returns the attention weights of a call with the same arguments, without dropout."""
        _refuse_context(context, context_segment_ids)
        x, _ = self.without_padding(x, None, mask, segment_ids, None)
        local, of_global = (
            attending.weights(
                _restricted(self.parts, queries, global_mask),
                *self._projected(queries, x, segment_ids, positions)[:2],
                arrays=self.arrays(),
                mask=mask,
                causal=self.settings.causal,
                segment_ids=segment_ids,
                positions=positions,
            )
            for queries in _BOTH
        )
        return local + of_global

    def _projected(self, queries: Queries, x, segment_ids, positions):
        """Returns q, k, v for the local or the global queries."""
        if queries == "local":
            return *self.queries_and_keys(x, None, segment_ids, positions), self.values(x, None)
        positions = segments.checked_positions(positions, x.shape[:2], segment_ids)
        q, k = self._heads(self.query_global, x), self._heads(self.key_global, x)
        if self.query_norm is not None and self.key_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        q, k = (self.position.rotate(y, positions) for y in (q, k))
        return q, k, self._heads(self.value_global, x)


def _pattern(config: Config, causal: bool) -> Longformer:
    return Longformer(make_window(config.window, causal=causal), config.max_global_tokens)


VARIANT = ExactVariant(
    Config, Score(scores.scaled_dot), pattern=_pattern, layer=LongformerLayer, decodes=False
)
make = VARIANT.make


def attend(
    q: Float[Array, "b t n h"],
    k: Float[Array, "b t k h"],
    v: Float[Array, "b t k h_v"],
    *,
    global_mask: Bool[Array, "#b t"] | None = None,
    global_q: Float[Array, "b t n h"] | None = None,
    global_k: Float[Array, "b t k h"] | None = None,
    global_v: Float[Array, "b t k h_v"] | None = None,
    **given: Any,
) -> Float[Array, "b t n h_v"]:
    """Returns the weighted sums of the values; see `ExactVariant.attend`.

    Args:
        q, k, v: queries, keys and values of the same tokens.
        global_mask: True for global tokens; None = the first of each segment.
        global_q, global_k, global_v: what global queries, and what they see, are given by; None =
            q, k, v. All or none of them.
        **given: all other arguments of an exact variant.

    Raises:
        ValueError: some of the global arrays only, or what an exact variant refuses.
    """
    if global_q is None or global_k is None or global_v is None:
        if any(array is not None for array in (global_q, global_k, global_v)):
            raise ValueError("global_q, global_k and global_v go together: give all or none")
        return _variant("all", global_mask).attend(q, k, v, **given)
    local = _variant("local", global_mask).attend(q, k, v, **given)
    return local + _variant("global", global_mask).attend(global_q, global_k, global_v, **given)


def weights(
    q: Float[Array, "b t n h"],
    k: Float[Array, "b t k h"],
    *,
    global_mask: Bool[Array, "#b t"] | None = None,
    **given: Any,
) -> Float[Array, "b n t s"]:
    """Returns the share of each value in `attend` without global arrays, in float32."""
    return _variant("all", global_mask).weights(q, k, **given)


def visible(
    t: int, s: int, *, global_mask: Bool[Array, "#b t"] | None = None, **given: Any
) -> Bool[Array, "#b #n t s"]:
    """Returns which of s keys each of t queries may see; see `ExactVariant.visible`."""
    return _variant("all", global_mask).visible(t, s, **given)


def _variant(queries: Queries, global_mask: Array | None) -> ExactVariant:
    def pattern(config: Config, causal: bool) -> Longformer:
        return dataclasses.replace(_pattern(config, causal), queries=queries, marked=global_mask)

    return dataclasses.replace(VARIANT, pattern=pattern)


def _restricted(parts: Parts, queries: Queries, global_mask: Array | None) -> Parts:
    assert isinstance(parts.pattern, Longformer)
    pattern = dataclasses.replace(parts.pattern, queries=queries, marked=global_mask)
    return dataclasses.replace(parts, pattern=pattern)


def _refuse_context(*given: Array | None) -> None:
    if any(array is not None for array in given):
        raise UserError(
            "longformer reads one sequence: leave out context and context_segment_ids, or choose "
            "a variant with the mode 'cross'"
        )
