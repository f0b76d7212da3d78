"""Recurrent cells with their parameters, and an encoder that reads a sequence both ways.

GRU and LSTM as in `attention.ops.recurrence`.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.core.settings import as_dtype
from attention.errors import UserError
from attention.ops import masks, recurrence, runs
from attention.ops.option_checks import check_choice, check_count, check_rate
from attention.ops.products import bilinear

STYLES = ("bahdanau", "luong")

# b batch, d input, f features of all gates
step_product = bilinear("bd,df->bf", "bf,df->bd", "bd,bf->df")


@dataclass(frozen=True)
class RecurrentConfig:
    """The sizes and options of a recurrent encoder and decoder.

    Attributes:
        dim: width d of embeddings and decoder states; each direction of the encoder has d/2.
        num_layers: cells on top of each other, in the encoder and in the decoder.
        cell: "gru" or "lstm".
        style: how attention gets into the decoder, see `RecurrentDecoder`.
        dropout_rate: for what a layer is given, and for what the output is made from.
        dtype: of the activations; states and gates are float32.

    Raises:
        UserError: a value that is not allowed.
    """

    dim: int
    num_layers: int = 1
    cell: str = "gru"
    style: str = "luong"
    dropout_rate: float = 0.0
    dtype: jnp.dtype | str = "float32"

    def __post_init__(self):
        check_count("model.dim", self.dim)
        check_count("model.num_layers", self.num_layers)
        check_choice("model.cell", self.cell, tuple(recurrence.CELLS))
        check_choice("model.style", self.style, STYLES)
        check_rate("model.dropout_rate", self.dropout_rate)
        if self.dim % 2:
            raise UserError(
                f"model.dim={self.dim} must be even for the two directions of a recurrent encoder"
            )
        object.__setattr__(self, "dtype", as_dtype(self.dtype))


class Cell(nnx.Module):
    """The maps of a GRU or an LSTM from the input and from the state to the gates."""

    def __init__(self, name: str, num_in: int, size: int, *, directions: int = 1, rngs: nnx.Rngs):
        self.name = name
        self.size = size
        self.directions = directions
        gates = self.kind.gates
        self.input = Linear(num_in, directions * len(gates) * size, rngs=rngs)
        # A forget gate that begins open lets the first gradients through (arXiv 1503.04069).
        opening = jnp.asarray([gate == "forget" for gate in gates], jnp.float32)
        self.input.bias[...] = jnp.tile(jnp.repeat(opening, size), directions)
        # Each gate's square is orthogonal, so that neither state nor gradient fades at first.
        orthogonal = nnx.initializers.orthogonal()
        squares = [
            [orthogonal(rngs.params(), (size, size), jnp.float32) for _ in gates]
            for _ in range(directions)
        ]
        self.kernel = nnx.Param(jnp.stack([jnp.concatenate(row, axis=1) for row in squares]))

    @property
    def kind(self) -> recurrence.Cell:
        """The cell's equations."""
        return recurrence.CELLS[self.name]

    def both_ways(
        self, x: Float[Array, "b s d"], segment_ids: Int[Array, "b s"]
    ) -> Float[Array, "b s 2*h"]:
        """Returns the states of the way there and of the way back at each position, in float32.

        Each segment begins with a state of zero; padding (id 0) is passed, and gives zeros.
        """
        b, s, _ = x.shape
        live = segment_ids != 0
        given = self.input(masks.blanked(x, live)).reshape(b, s, 2, -1)
        there, back = runs.starts(segment_ids), runs.starts(segment_ids[:, ::-1])
        zeros = jnp.zeros((2, b, self.size), jnp.float32)
        hidden, _ = recurrence.scan(
            self.kind,
            _time_first(given[:, :, 0], given[:, ::-1, 1]),
            self.kernel[...],
            (zeros,) * self.kind.num_states,
            live=_time_first(live, live[:, ::-1]),
            reset=_time_first(there, back),
            dtype=x.dtype,
        )
        joined = jnp.concatenate([hidden[:, 0], hidden[::-1, 1]], axis=-1)
        return masks.blanked(jnp.swapaxes(joined, 0, 1), live)


def _time_first(there: Array, back: Array) -> Array:
    """Stacks [b s …] of both ways to [s 2 b …]."""
    return jnp.stack([jnp.swapaxes(way, 0, 1) for way in (there, back)], axis=1)


class RecurrentEncoder(nnx.Module):
    """Bidirectional recurrences on top of each other (Schuster & Paliwal 1997)."""

    def __init__(self, config: RecurrentConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.cells = nnx.List(
            [
                Cell(config.cell, config.dim, config.dim // 2, directions=2, rngs=rngs)
                for _ in range(config.num_layers)
            ]
        )
        self.dropout = Dropout(config.dropout_rate)

    def __call__(
        self,
        x: Float[Array, "b s d"],
        *,
        segment_ids: Int[Array, "b s"],
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b s d"]:
        """Returns the states of both ways at each position, zeros at padding.

        Args:
            x: the embedded sequence.
            segment_ids: examples packed in a row are read apart; 0 is padding.
            rngs: for dropout, stream "dropout"; None = deterministic.
        """
        x = x.astype(self.config.dtype)
        for cell in self.cells:
            x = cell.both_ways(self.dropout(x, rngs=rngs), segment_ids).astype(x.dtype)
        return x


def ends(
    states: Float[Array, "b s d"],
    source_ids: Int[Array, "b s"],
    target_ids: Int[Array, "b t"],
) -> Float[Array, "b t d"]:
    """Returns what both ways of an encoder know of a whole source, for each target position.

    Args:
        states: of an encoder, the way there in the first half of the features.
        source_ids, target_ids: segment ids; 0 is padding.

    Returns:
        The state there at the last token of the source with the same id, and the state back at its
        first token; zeros where there is none.
    """
    same = (target_ids[:, :, None] == source_ids[:, None, :]) & (target_ids != 0)[:, :, None]
    first = jnp.argmax(same, axis=-1)
    last = same.shape[-1] - 1 - jnp.argmax(same[:, :, ::-1], axis=-1)
    there, back = jnp.split(states, 2, axis=-1)
    found = [
        jnp.take_along_axis(way, at[:, :, None], axis=1)
        for way, at in ((there, last), (back, first))
    ]
    return masks.blanked(jnp.concatenate(found, axis=-1), jnp.any(same, axis=-1))
