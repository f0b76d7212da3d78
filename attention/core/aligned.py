"""A variant of cross-attention whose queries follow each other, and its layer.

As with the exact family, a variant states its parts, and `AlignedVariant` makes the rest of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core.aligned_layer import AlignedLayer, weighed
from attention.core.attending import scores_shape
from attention.core.settings import LayerSettings
from attention.errors import UserError, did_you_mean
from attention.ops import masks
from attention.ops.alignment import Aligned, Course, later_starts
from attention.ops.masks import Conditions, Offset
from attention.ops.own_array import OwnArray


class AlignedParts(NamedTuple):
    """What such a mechanism brings along, as `core.parts.Parts` says of the exact family."""

    own_arrays: tuple[OwnArray, ...]


@dataclass(frozen=True)
class AlignedVariant:
    """What distinguishes one such mechanism from another.

    Attributes:
        name: the variant's.
        config: its `Config`.
        arrays: (config, head size h) → the arrays it takes besides q, k and v; their axes may have
            letters that are not sizes of a layer, if `sizes` has them.
        first: (b, n, s) → the alignment before the first query, [b n s].
        align: (config, q, k, course, rngs, **own arrays) → weights and the alignment at the end;
            k has a head for each query head, and rngs are None but in training.
        sizes: (config) → the sizes of the other letters, in a layer.
    """

    name: str
    config: type[Any]
    arrays: Callable[[Any, int], tuple[OwnArray, ...]]
    first: Callable[[int, int, int], Array]
    align: Callable[..., Aligned]
    sizes: Callable[[Any], dict[str, int]] = lambda config: {}

    def make(self, config: Any, settings: LayerSettings, *, rngs: nnx.Rngs) -> AlignedLayer:
        """Makes the layer."""
        return AlignedLayer(self, config, settings, rngs=rngs)

    def parts(self, config: Any, *, head_dim: int = 1) -> AlignedParts:
        """Returns which arrays it takes; their initial values depend on the head size."""
        return AlignedParts(self.arrays(config, head_dim))

    def attend(
        self,
        q: Float[Array, "b t n h"],
        k: Float[Array, "b s k h"],
        v: Float[Array, "b s k h_v"],
        *,
        previous: Float[Array, "b n s"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        causal: bool = False,
        query_offset: Offset | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        key_segment_ids: Int[Array, "b s"] | None = None,
        **own: Any,
    ) -> Float[Array, "b t n h_v"]:
        """Returns the weighted sums of the values, in their type; zeros where nothing is seen.

        Args:
            q: queries, one after the other.
            k, v: keys and values, each head of which serves n/k query heads that follow each other.
            previous: the alignment before the first query; None = the variant's first. Each later
                segment of queries starts from the first one.
            mask: True = may attend; a padding mask is [b 1 1 s].
            causal: refused: queries and keys are two sequences.
            query_offset: has no effect, for the same reason.
            segment_ids, key_segment_ids: equal ids see each other; 0 is padding.
            **own: the variant's arrays, and options of its `Config`.

        Raises:
            ValueError: shapes, masks or ids that do not fit, an array that is missing or not known,
                an option that is not allowed.
        """
        aligned, given = self._aligned(
            own,
            *(q, k, v),
            previous=previous,
            mask=mask,
            causal=causal,
            query_offset=query_offset,
            segment_ids=segment_ids,
            key_segment_ids=key_segment_ids,
        )
        v = masks.blanked(v, masks.seen_keys(given))
        return weighed(aligned.weights, v)

    def weights(
        self,
        q: Float[Array, "b t n h"],
        k: Float[Array, "b s k h"],
        *,
        previous: Float[Array, "b n s"] | None = None,
        mask: Bool[Array, "#b #n #t #s"] | None = None,
        causal: bool = False,
        query_offset: Offset | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        key_segment_ids: Int[Array, "b s"] | None = None,
        **own: Any,
    ) -> Float[Array, "b n t s"]:
        """Returns the share of each value in `attend` with the same arguments, in float32."""
        aligned, _ = self._aligned(
            own,
            *(q, k),
            previous=previous,
            mask=mask,
            causal=causal,
            query_offset=query_offset,
            segment_ids=segment_ids,
            key_segment_ids=key_segment_ids,
        )
        return aligned.weights

    def _aligned(self, own, q, k, v=None, *, previous, causal, **conditions):
        if causal:
            raise UserError(
                f"variant {self.name!r} attends from one sequence to another, and cannot be causal"
            )
        shape = scores_shape(q, k, v)
        given = masks.conditions(shape, **conditions)
        config, arrays = self._own(own, {"n": shape[1], "h": q.shape[3]})
        return self.run(config, q, k, given, previous=previous, arrays=arrays), given

    def run(
        self,
        config: Any,
        q: Float[Array, "b t n h"],
        k: Float[Array, "b s k h"],
        given: Conditions,
        *,
        previous: Float[Array, "b n s"] | None,
        arrays: dict[str, Array],
        rngs: nnx.Rngs | None = None,
    ) -> Aligned:
        """Returns the weights of all queries, and the alignment at the end.

        Args:
            config, arrays: the variant's own.
            q, k: queries and keys; what is padding among them may hold anything.
            given: who sees whom.
            previous: the alignment before the first query; None = the variant's first.
            rngs: for noise, stream "dropout"; None = deterministic.

        Raises:
            ValueError: `previous` is not [b n s].
        """
        b, t, n, _ = q.shape
        s = k.shape[1]
        first = self.first(b, n, s)
        if previous is None:
            previous = first
        elif previous.shape != first.shape:
            raise ValueError(f"previous has shape {previous.shape}, not [b n s] = {first.shape}")
        if not q.size or not k.size:
            return Aligned(jnp.zeros((b, n, t, s), jnp.float32), previous)
        ids = given.queries.segment
        course = Course(
            seen=_seen(given, (b, t, s)),
            resets=jnp.zeros((b, t), jnp.bool_) if ids is None else later_starts(ids),
            first=first,
            previous=previous.astype(jnp.float32),
        )
        q = masks.blanked(q, masks.real_queries(given))
        k = masks.blanked(k, masks.seen_keys(given))
        k = jnp.repeat(k, n // k.shape[2], axis=2)
        return self.align(config, q, k, course, rngs, **arrays)

    def _own(self, own: dict[str, Any], sizes: dict[str, int]) -> tuple[Any, dict[str, Array]]:
        """Parts options from arrays, and checks both; `sizes` gets what other letters stand for."""
        options = {f.name for f in dataclasses.fields(self.config) if not f.metadata.get("layer")}
        config = self.config(**{name: value for name, value in own.items() if name in options})
        arrays = {name: value for name, value in own.items() if name not in options}
        wanted = {array.name: array.axes for array in self.parts(config).own_arrays}
        for name in arrays:
            if name not in wanted:
                known = sorted({*wanted, *options})
                raise ValueError(
                    f"no option or array {name!r}{did_you_mean(name, known)}: there are "
                    f"{', '.join(known)}"
                )
        for name, axes in wanted.items():
            if name not in arrays:
                raise ValueError(f"the array {name} [{axes}] is missing: give it as a keyword")
            _check_shape(name, arrays[name].shape, axes, sizes)
        return config, arrays


def _check_shape(name: str, shape: tuple[int, ...], axes: str, sizes: dict[str, int]) -> None:
    letters = axes.split()
    # A letter that q and k do not fix is fixed by the first array that has it.
    if len(shape) != len(letters) or any(
        sizes.setdefault(letter, have) != have for letter, have in zip(letters, shape, strict=True)
    ):
        needed = ", ".join(str(sizes.get(letter, letter)) for letter in letters)
        raise ValueError(f"{name} has shape {shape}, not [{axes}] = ({needed})")


def _seen(given: Conditions, shape: tuple[int, int, int]) -> Bool[Array, "#b #n t s"]:
    b, t, s = shape
    seen = masks.visible(given)
    if seen is None:
        return jnp.ones((b, 1, t, s), jnp.bool_)
    return jnp.broadcast_to(seen, (b, seen.shape[1], t, s))
