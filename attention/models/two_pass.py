"""Both directions from a layer that knows one: `model.direction = "two_pass"`."""

import math
from collections.abc import Callable

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.ops import runs, segments
from attention.ops.masks import check_mask


class TwoPass(nnx.Module):
    """Two causal attention layers, one of which reads each segment from its end.

    The sum of their outputs is divided by √2, which keeps the variance that one layer's output has.
    Each has its out projection, so the sum is what projecting both joined would be.
    """

    def __init__(self, make_layer: Callable[[], nnx.Module]):
        """Makes both layers by calling `make_layer` twice, the one that reads forward first."""
        self.onward = make_layer()
        self.backward = make_layer()

    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        mask: Bool[Array, "#b 1 1 #s"] | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Attends from each position to its whole segment.

        Segments keep their places in the row, and so does what lies outside them: the second layer
        sees each turned round between its first and its last visible position.

        Args:
            x: the sequence.
            mask: True = may attend; hides keys from all queries.
            segment_ids: examples packed in a row, each a stretch; 0 is padding. None = a row is one
                segment.
            positions: None = 0, 1, … restarting at each segment. The second layer gets them
                mirrored (last + first − position), so that they grow in the order it reads.
            rngs: for dropout, stream "dropout"; None = deterministic.

        Raises:
            ValueError: a mask that is not [b 1 1 s].
        """
        b, t, _ = x.shape
        check_mask(mask, (b, 1, 1, t))
        if positions is None:
            positions = segments.default_positions(t, segment_ids)
        given = {"mask": mask, "segment_ids": segment_ids, "positions": positions, "rngs": rngs}
        onward = self.onward(x, **given)

        ids = jnp.ones((b, t), jnp.int32) if segment_ids is None else segment_ids
        visible = jnp.ones((b, t), jnp.bool_)
        if mask is not None:
            visible = visible & mask[:, 0, 0, :]
        turn = runs.mirror(ids, visible)
        if mask is not None:
            given["mask"] = _taken(visible, turn.source)[:, None, None, :]
        if segment_ids is not None:
            given["segment_ids"] = _taken(segment_ids, turn.source)
        given["positions"] = _mirrored(jnp.broadcast_to(positions, (b, t)), turn)
        backward = self.backward(_turned(x, turn), **given)
        return (onward + _turned(backward, turn)) * (1.0 / math.sqrt(2.0))


def _mirrored(positions: Int[Array, "b t"], turn: runs.Mirror) -> Int[Array, "b t"]:
    ends = _taken(positions, turn.first) + _taken(positions, turn.last)
    return ends - _taken(positions, turn.source)


def _taken(values: Array, index: Int[Array, "b t"]) -> Array:
    return jnp.take_along_axis(values, index, axis=1)


def _turned(x: Float[Array, "b t d"], turn: runs.Mirror) -> Float[Array, "b t d"]:
    return jnp.take_along_axis(x, turn.source[..., None], axis=1)
