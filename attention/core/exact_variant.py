"""A variant of the exact family: its parts as data, and from them all that a variant offers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention import normalizers
from attention import positions as position_schemes
from attention.core import attending
from attention.core.exact import ExactConfig
from attention.core.layer import AttentionLayer
from attention.core.parts import NO_MIX, HeadMix, Parts, Score
from attention.core.settings import LayerSettings
from attention.errors import did_you_mean
from attention.ops import masks
from attention.ops.masks import Offset, Pattern
from attention.ops.relative import T5, Alibi, Relative, Shaw
from attention.ops.window import make_window

ALL_MODES = frozenset({"bidirectional", "causal", "cross", "decode", "packed"})
# The position schemes that act inside attention: all of them mean something to scores.
ALL_POSITIONS = tuple(
    name for name in position_schemes.names() if position_schemes.place(name) == "attention"
)
_T5_MAX_DISTANCE = 128


def window_of(config: Any, causal: bool) -> Pattern | None:
    """Returns the pattern of the option `window`."""
    dilation = getattr(config, "dilation", 1)
    if config.window is None:
        return None
    return make_window(config.window, causal=causal, dilation=dilation)


@dataclass(frozen=True)
class ExactVariant:
    """score × position terms × mask × normalizer × head layout, put together.

    Attributes:
        config: the variant's `Config`.
        score: how well a query fits a key.
        mix: of heads.
        pattern: (config, causal) → who sees whom by place, or None.
        layer: the class of its layer.
        decodes: whether that may be given its input token by token.
    """

    config: type[ExactConfig]
    score: Score
    mix: HeadMix = NO_MIX
    pattern: Callable[[Any, bool], Pattern | None] = window_of
    layer: type[AttentionLayer] = AttentionLayer
    decodes: bool = True

    def make(
        self, config: ExactConfig, settings: LayerSettings, *, rngs: nnx.Rngs
    ) -> AttentionLayer:
        """Makes the layer."""
        return self.layer(self, config, settings, rngs=rngs)

    def parts(
        self, config: ExactConfig, *, causal: bool = False, relative: Relative | None = None
    ) -> Parts:
        """Returns what the core computes with."""
        options = normalizers.get(config.normalizer).OPTIONS
        return Parts(
            score=self.score,
            normalizer=config.normalizer,
            normalizer_options=tuple((name, getattr(config, name)) for name in options),
            mix=self.mix,
            softcap=config.softcap,
            relative=relative,
            pattern=self.pattern(config, causal),
        )

    def attend(
        self,
        q: Float[Array, "b t n h"],
        k: Float[Array, "b s k h"],
        v: Float[Array, "b s k h_v"],
        *,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        causal: bool = False,
        query_offset: Offset | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        key_segment_ids: Int[Array, "b s"] | None = None,
        **own: Any,
    ) -> Float[Array, "b t n h_v"]:
        """Returns the weighted sums of the values, in their type; zeros where nothing is seen.

        Args:
            q: queries.
            k, v: keys and values, each head of which serves n/k query heads that follow each other.
            mask: True = may attend; a padding mask is [b 1 1 s].
            causal: query i sees key j only if j ≤ i + query_offset.
            query_offset: the key position of query 0; None means 0 where t = s.
            segment_ids, key_segment_ids: equal ids see each other; 0 is padding.
            **own: arrays of the variant's parts (`score_vector`, `sink`, …), those of a position
                scheme (`slopes`, `bias_table`, or `key_table` and `value_table`), and options of
                its `Config`.

        Raises:
            ValueError: shapes, masks or ids that do not fit, an array that is missing or not known,
                an option that is not allowed.
        """
        config, parts, arrays = self._own(own, causal, q, k, v)
        return attending.attend(
            parts,
            q,
            k,
            v,
            arrays=arrays,
            mask=mask,
            causal=causal,
            query_offset=query_offset,
            segment_ids=segment_ids,
            key_segment_ids=key_segment_ids,
            implementation=config.implementation,
            block_size=config.block_size,
        )

    def weights(
        self,
        q: Float[Array, "b t n h"],
        k: Float[Array, "b s k h"],
        *,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        causal: bool = False,
        query_offset: Offset | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        key_segment_ids: Int[Array, "b s"] | None = None,
        **own: Any,
    ) -> Float[Array, "b n t s"]:
        """Returns the share of each value in `attend` with the same arguments, in float32."""
        _, parts, arrays = self._own(own, causal, q, k)
        return attending.weights(
            parts,
            q,
            k,
            arrays=arrays,
            mask=mask,
            causal=causal,
            query_offset=query_offset,
            segment_ids=segment_ids,
            key_segment_ids=key_segment_ids,
        )

    def visible(
        self,
        t: int,
        s: int,
        *,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        causal: bool = False,
        query_offset: Offset | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        key_segment_ids: Int[Array, "b s"] | None = None,
        **options: Any,
    ) -> Bool[Array, "#b #n t s"]:
        """Returns which of s keys each of t queries may see, with the options of `Config`."""
        config = self.config(**options)
        rows = [x.shape[0] for x in (segment_ids, mask) if x is not None]
        offsets = () if query_offset is None else jnp.shape(jnp.asarray(query_offset))
        b = max([1, *rows, *offsets])
        n = 1 if mask is None else mask.shape[1]
        given = masks.conditions(
            (b, n, t, s),
            mask=mask,
            causal=causal,
            query_offset=query_offset,
            segment_ids=segment_ids,
            key_segment_ids=key_segment_ids,
            pattern=self.pattern(config, causal),
        )
        sees = masks.visible(given)
        return jnp.ones((1, 1, t, s), jnp.bool_) if sees is None else sees

    def _own(self, own: dict[str, Any], causal: bool, q: Array, k: Array, v: Array | None = None):
        options = {
            field.name
            for field in dataclasses.fields(self.config)
            if not field.metadata.get("layer")
        }
        config = self.config(**{name: value for name, value in own.items() if name in options})
        arrays = {name: value for name, value in own.items() if name not in options}
        parts = self.parts(config, causal=causal, relative=_relative(arrays, causal))
        sizes = {}
        if q.ndim == k.ndim == 4:
            n = q.shape[2]
            sizes = {"n": n, "p": n // 2, "k": k.shape[2], "h": q.shape[3]}
        if v is not None and v.ndim == 4:
            sizes["h_v"] = v.shape[3]
        _check_arrays(parts, arrays, sizes, options)
        return config, parts, arrays


# "buckets" and "rows" are any number.
_POSITION_AXES = {
    "slopes": "n",
    "bias_table": "buckets n",
    "key_table": "rows h",
    "value_table": "rows h_v",
}


def _names(relative: Relative | None) -> tuple[str, ...]:
    return () if relative is None else relative.ARRAYS


def _relative(arrays: dict[str, Array], causal: bool) -> Relative | None:
    """Returns the position terms that the given arrays belong to."""
    if "slopes" in arrays:
        return Alibi()
    if "bias_table" in arrays:
        return T5(bidirectional=not causal, max_distance=_T5_MAX_DISTANCE)
    if "key_table" in arrays or "value_table" in arrays:
        return Shaw()
    return None


def _check_arrays(
    parts: Parts, arrays: dict[str, Array], sizes: dict[str, int], options: set[str]
) -> None:
    wanted = {array.name: array.axes.split() for array in parts.own_arrays}
    of_positions = {} if parts.relative is None else _POSITION_AXES
    of_positions = {name: of_positions[name].split() for name in _names(parts.relative)}
    wanted |= of_positions
    for name in wanted:
        if name not in arrays:
            axes = " ".join(wanted[name])
            raise ValueError(f"the array {name} [{axes}] is missing: give it as a keyword")
    for name, array in arrays.items():
        if name not in wanted:
            known = sorted({*wanted, *options})
            raise ValueError(
                f"no option or array {name!r}{did_you_mean(name, known)}: there are "
                f"{', '.join(known)}"
            )
        if sizes:
            axes = wanted[name]
            fits = len(array.shape) == len(axes) and all(
                sizes.get(letter, have) == have
                for letter, have in zip(axes, array.shape, strict=True)
            )
            if not fits:
                shape = ", ".join(str(sizes.get(letter, letter)) for letter in axes)
                raise ValueError(
                    f"{name} has shape {array.shape}, not [{' '.join(axes)}] = ({shape})"
                )
