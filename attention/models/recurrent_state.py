"""What a recurrent decoder carries from step to step, is given at one, and gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int

from attention.core.dropout import Drop


class RecurrentState(NamedTuple):
    """What decoding carries; the batch leads every leaf, so beams are indexed.

    Attributes:
        cells: of each layer (h,) or (h, c), float32.
        attentional: the last attentional vector h~ (style "luong"; else ()).
        cache: of the attention layer; () without attention.
    """

    cells: tuple[tuple[Float[Array, "b d"], ...], ...]
    attentional: Any
    cache: Any


class Step(NamedTuple):
    """What one step is given besides the state.

    Attributes:
        gates: what the embedded token gives the gates of the first cell.
        fixed: the context of a decoder without attention, else ().
        visible: which source positions are those of the row's example.
        index: the step's number, for dropout.
    """

    gates: Float[Array, "b f"]
    fixed: Any
    visible: Bool[Array, "b s"]
    index: Int[Array, ""]


class Random(NamedTuple):
    """What is drawn at random in training, one draw for all steps."""

    drop: Drop | None = None
    key: Array | None = None


class Outcome(NamedTuple):
    """What a step gives.

    Attributes:
        top: the state of the last cell, or the attentional vector that is made from it.
        context: what attention read.
        query: what it asked with.
    """

    top: Float[Array, "b d"]
    context: Float[Array, "b d"]
    query: Float[Array, "b d"]
