"""A recurrent network where attention stands: a baseline.

GRU (Cho et al. 2014, arXiv 1406.1078; formula in `attention.ops.recurrence`) or LSTM (Hochreiter &
Schmidhuber 1997, Neural Computation 9; Gers et al. 2000). x W_x + b → recurrence over time → out
projection; the state has n·h features in all. A layer that is not causal runs two directions side
by side, each with half of them (bidirectional RNN: Schuster & Paliwal 1997). Time t·(n·h)², one
step after the other; memory t·n·h.

The state starts at zero in each segment; it passes hidden keys and padding (id 0) unchanged, and
what a query there reads is the state that passes. Order is built in: `positions` are not looked at.
Dropout acts on the layer's input, not from step to step (Zaremba et al. 2014, arXiv 1409.2329).
Cannot do: cross-attention; masks that differ between queries.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core import ordered
from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.core.settings import LayerSettings
from attention.errors import UserError
from attention.ops import masks, recurrence, runs
from attention.ops.option_checks import check_choice

NAME = "rnn"
MODES = frozenset({"bidirectional", "causal", "decode", "packed"})
POSITIONS = ()  # none of those that act inside attention


@dataclass(frozen=True)
class Config:
    """The options of the recurrence.

    Attributes:
        cell: "gru" or "lstm".

    Raises:
        UserError: another cell.
    """

    cell: Literal["gru", "lstm"] = field(default="gru", metadata={"examples": ("lstm",)})

    def __post_init__(self):
        check_choice("model.attention.cell", self.cell, tuple(recurrence.CELLS))


class RecurrentCache(NamedTuple):
    """What step-by-step decoding carries; the batch leads every leaf, so beams are indexed.

    Attributes:
        state: (h,) of a GRU or (h, c) of an LSTM, each [b h], float32.
        position, max_length, overflow: see `ordered.Reach`.
    """

    state: tuple[Float[Array, "b h"], ...]
    position: Int[Array, " b"]
    max_length: Int[Array, " b"]
    overflow: Bool[Array, " b"]


class RecurrentKernel(nnx.Module):
    """The map from a state of h features to the gates, one for each of g directions."""

    def __init__(self, directions: int, size: int, gates: int, *, rngs: nnx.Rngs):
        # Each gate's square is orthogonal, so that neither state nor gradient fades at first.
        make = nnx.initializers.orthogonal()
        squares = [
            [make(rngs.params(), (size, size), jnp.float32) for _ in range(gates)]
            for _ in range(directions)
        ]
        self.kernel = nnx.Param(jnp.stack([jnp.concatenate(row, axis=1) for row in squares]))


class RecurrentLayer(nnx.Module):
    """Linear in → GRU or LSTM over time → linear out."""

    def __init__(self, config: Config, settings: LayerSettings, *, rngs: nnx.Rngs):
        """Raises UserError if two directions cannot share the features equally."""
        width = settings.num_heads * settings.head_dim
        self.directions = 1 if settings.causal else 2
        if width % self.directions:
            raise UserError(
                f"num_heads·head_dim={width} must be even for the two directions of 'rnn': "
                f"change model.dim"
            )
        self.settings = settings
        self.cell_name = config.cell
        self.size = width // self.directions
        gates = self._cell.gates
        num_features = self.directions * len(gates) * self.size
        self.input = Linear(settings.dim, num_features, rngs=rngs)
        # A forget gate that begins open lets the first gradients through (arXiv 1503.04069).
        opening = jnp.asarray([gate == "forget" for gate in gates], jnp.float32)
        self.input.bias[...] = jnp.tile(jnp.repeat(opening, self.size), self.directions)
        self.recurrent = RecurrentKernel(self.directions, self.size, len(gates), rngs=rngs)
        self.out = Linear(width, settings.dim, rngs=rngs)
        self.dropout = Dropout(settings.dropout_rate)

    @property
    def _cell(self) -> recurrence.Cell:
        return recurrence.CELLS[self.cell_name]

    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b 1 1 #s"] | None = None,
        segment_ids: Int[Array, "b t"] | None = None,
        context_segment_ids: Int[Array, "b s"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Reads x in order, and where the layer is not causal, in the opposite order as well.

        Args:
            x: the sequence.
            context, context_segment_ids: refused.
            mask: True = is read.
            segment_ids: examples packed in a row, each a stretch; 0 is padding.
            positions: not looked at.
            rngs: for dropout, stream "dropout"; None = deterministic.

        Raises:
            ValueError: a mask or ids that do not fit; a context.
        """
        ordered.refuse_context(NAME, context, context_segment_ids)
        b, t, _ = x.shape
        live = ordered.visible_keys((b, t), mask=mask, segment_ids=segment_ids)
        hidden, _ = self._run(x, live, segment_ids, self._zeros(b), rngs)
        if segment_ids is not None:
            hidden = jnp.where((segment_ids != 0)[..., None], hidden, 0.0)
        return self.out(hidden.astype(self.settings.dtype))

    def weights(self, x: Float[Array, "b t d"], **given: Any) -> NoReturn:
        """Raises UserError: there are none."""
        ordered.refuse_weights(NAME)

    def init_cache(self, batch: int, max_length: int) -> RecurrentCache:
        """Returns the state before the first of up to max_length tokens of `batch` sequences."""
        state = tuple(array[0] for array in self._zeros(batch))
        return RecurrentCache(state, *ordered.start(batch, max_length))

    def decode(
        self,
        x: Float[Array, "b t d"],
        cache: RecurrentCache,
        *,
        context: Float[Array, "b s c"] | None = None,
        mask: Bool[Array, "#b 1 1 #s"] | None = None,
    ) -> tuple[Float[Array, "b t d"], RecurrentCache]:
        """Reads the next t tokens.

        Args:
            x: the next tokens, one or more.
            cache: what `init_cache` or the last call returned.
            context: refused.
            mask: True = is read; its keys are all tokens from position 0 on. Only those of the new
                tokens matter: what was read cannot be taken back.

        Raises:
            ValueError: past the cache's max_length (inside jit: `cache.overflow`); a context; the
                layer is not causal.
        """
        ordered.refuse_context(NAME, context)
        ordered.check_causal(self.settings)
        reach = ordered.Reach(cache.position, cache.max_length, cache.overflow)
        reach, _, live = ordered.advance(reach, x.shape[1], mask=mask)
        state = tuple(array[None] for array in cache.state)
        hidden, state = self._run(x, live, None, state, None)
        y = self.out(hidden.astype(self.settings.dtype))
        return y, RecurrentCache(tuple(array[0] for array in state), *reach)

    def _zeros(self, batch: int) -> recurrence.State:
        zeros = jnp.zeros((self.directions, batch, self.size), jnp.float32)
        return (zeros,) * self._cell.num_states

    def _run(self, x, live, segment_ids, state, rngs):
        """Returns the hidden state at each position, [b t n·h], and the state at the end."""
        b, t, _ = x.shape
        x = masks.blanked(x.astype(self.settings.dtype), live)
        given = self.input(self.dropout(x, rngs=rngs))
        given = given.reshape(b, t, self.directions, given.shape[2] // self.directions)
        hidden, state = recurrence.scan(
            self._cell,
            _time_first([given[:, :, i] for i in range(self.directions)]),
            self.recurrent.kernel[...],
            state,
            live=_time_first([live] * self.directions),
            reset=self._resets(live, segment_ids),
            dtype=self.settings.dtype,
        )
        ways = [hidden[:, 0], hidden[::-1, 1]] if self.directions == 2 else [hidden[:, 0]]
        return jnp.swapaxes(jnp.concatenate(ways, axis=-1), 0, 1), state

    def _resets(self, live, segment_ids):
        if segment_ids is None:
            return _time_first([jnp.zeros_like(live)] * self.directions)
        ways = [runs.starts(segment_ids)]
        if self.directions == 2:
            ways.append(runs.starts(segment_ids[:, ::-1])[:, ::-1])
        return _time_first(ways)


def _time_first(ways: list[Array]) -> Array:
    """Stacks [b t …] of each direction to [t g b …], the second back to front."""
    return jnp.stack(
        [jnp.swapaxes(way, 0, 1)[:: -1 if i else 1] for i, way in enumerate(ways)], axis=1
    )


def weights(*arrays: Array, **given: Any) -> NoReturn:
    """Raises UserError: there are none."""
    ordered.refuse_weights(NAME)


def make(config: Config, settings: LayerSettings, *, rngs: nnx.Rngs) -> RecurrentLayer:
    """Makes the layer."""
    return RecurrentLayer(config, settings, rngs=rngs)
