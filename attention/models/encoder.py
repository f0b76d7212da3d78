"""A Transformer encoder around any attention layer, and what a decoder shares with it.

Attention Is All You Need (2017), arXiv 1706.03762, section 3.1 (norm = post); On Layer
Normalization in the Transformer Architecture (2020), arXiv 2002.04745 (norm = pre).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention import positions as position_schemes
from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.core.settings import as_dtype
from attention.errors import UserError, did_you_mean
from attention.models.layer_norm import LayerNorm
from attention.ops import segments

ACTIVATIONS = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "silu": jax.nn.silu}
NORMS = ("pre", "post")
MERGES = ("add", "concat")


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes and options of an encoder, or of a decoder.

    Attributes:
        dim: width d.
        num_layers: blocks.
        mlp_dim: width f of the hidden layer of each block's MLP.
        dropout_rate: for the input and the output of each sublayer.
        norm: "pre" or "post": before or after each sublayer.
        activation: "relu", "gelu" or "silu".
        position: a position scheme, by name or as its Config; one that acts inside attention is the
            attention factory's.
        position_merge: how the vectors of a scheme at the input get into it: "add", or "concat":
            appended to its features and mapped back to width d.
        max_length: the number of positions, for schemes with a table.
        dtype: of the activations.

    Raises:
        UserError: a value that is not among the allowed ones.
    """

    dim: int
    num_layers: int
    mlp_dim: int
    dropout_rate: float = 0.0
    norm: str = "pre"
    activation: str = "gelu"
    position: Any = "sinusoidal"
    position_merge: str = "add"
    max_length: int | None = None
    dtype: jnp.dtype | str = "float32"

    def __post_init__(self):
        for name in ("dim", "num_layers", "mlp_dim"):
            if getattr(self, name) < 1:
                raise UserError(f"model.{name}={getattr(self, name)} must be at least 1")
        choices = {"norm": NORMS, "activation": tuple(ACTIVATIONS), "position_merge": MERGES}
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                hint = did_you_mean(value, allowed)
                raise UserError(f"model.{name}={value!r} is not one of {', '.join(allowed)}{hint}")
        if self.position_merge != "add" and position_schemes.place(self.position) != "input":
            raise UserError(
                f"model.position_merge={self.position_merge!r} merges vectors into the input, and "
                f"model.position={position_schemes.name_of(self.position)!r} has none there: "
                f"set model.position_merge=add"
            )
        object.__setattr__(self, "dtype", as_dtype(self.dtype))


class Mlp(nnx.Module):
    """Two linear maps with an activation between them, for each position apart."""

    def __init__(self, config: EncoderConfig, *, rngs: nnx.Rngs):
        self.up = Linear(config.dim, config.mlp_dim, rngs=rngs)
        self.down = Linear(config.mlp_dim, config.dim, rngs=rngs)
        self.activation = config.activation

    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        # float32: bfloat16 activation functions are three times slower on a CPU, and coarse.
        hidden = ACTIVATIONS[self.activation](self.up(x).astype(jnp.float32))
        return self.down(hidden.astype(x.dtype))


class Sublayers(nnx.Module):
    """What surrounds each sublayer of a block: a residual connection, a norm and dropout."""

    def __init__(self, config: EncoderConfig):
        self.dropout = Dropout(config.dropout_rate)
        self.pre = config.norm == "pre"

    def before(self, x: Float[Array, "b t d"], norm: LayerNorm) -> Float[Array, "b t d"]:
        """Returns the input of a sublayer."""
        return norm(x) if self.pre else x

    def after(
        self,
        x: Float[Array, "b t d"],
        y: Float[Array, "b t d"],
        norm: LayerNorm,
        rngs: nnx.Rngs | None,
    ) -> Float[Array, "b t d"]:
        """Returns x with the sublayer's output y added."""
        x = x + self.dropout(y, rngs=rngs)
        return x if self.pre else norm(x)


class Block(Sublayers):
    """Attention and MLP."""

    def __init__(self, config: EncoderConfig, attention: nnx.Module, *, rngs: nnx.Rngs):
        super().__init__(config)
        self.attention = attention
        self.attention_norm = LayerNorm(config.dim)
        self.mlp = Mlp(config, rngs=rngs)
        self.mlp_norm = LayerNorm(config.dim)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        segment_ids: Int[Array, "b t"] | None,
        positions: Int[Array, "#b t"],
        rngs: nnx.Rngs | None,
    ) -> Float[Array, "b t d"]:
        y = self.attention(
            self.before(x, self.attention_norm),
            segment_ids=segment_ids,
            positions=positions,
            rngs=rngs,
        )
        x = self.after(x, y, self.attention_norm, rngs)
        return self.after(x, self.mlp(self.before(x, self.mlp_norm)), self.mlp_norm, rngs)


class Stack(nnx.Module):
    """Positions at the input, blocks, and a norm at the end."""

    def __init__(
        self,
        config: EncoderConfig,
        make_block: Callable[[int], nnx.Module],
        *,
        rngs: nnx.Rngs,
    ):
        """Builds the blocks from their numbers, 0 … num_layers − 1.

        Raises:
            UserError: the position scheme is unknown or cannot have these sizes.
        """
        self.config = config
        at_input = position_schemes.place(config.position) == "input"
        self.position = position_schemes.make(
            config.position if at_input else "none",
            config.dim,
            max_length=config.max_length,
            rngs=rngs,
        )
        # Positions as wide as the input, so that the map back takes twice its width.
        concat = config.position_merge == "concat"
        self.merge = Linear(2 * config.dim, config.dim, rngs=rngs) if concat else None
        self.dropout = Dropout(config.dropout_rate)
        self.blocks: nnx.List[Any] = nnx.List(
            [make_block(index) for index in range(config.num_layers)]
        )
        # Post-norm blocks end on a norm already.
        self.norm = LayerNorm(config.dim) if config.norm == "pre" else None

    def enter(
        self,
        x: Float[Array, "b t d"],
        positions: Int[Array, "#b t"],
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Returns what the first block gets: x in the config's dtype, with its positions."""
        x = self._with_positions(x.astype(self.config.dtype), positions)
        return self.dropout(x, rngs=rngs)

    def leave(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        """Returns what the stack gives from what the last block gave."""
        return x if self.norm is None else self.norm(x)

    def _with_positions(self, x, positions):
        vectors = self.position.vectors(positions)
        if vectors is None:
            return x
        vectors = vectors.astype(x.dtype)
        if self.merge is None:
            return x + vectors
        return self.merge(jnp.concatenate([x, jnp.broadcast_to(vectors, x.shape)], axis=-1))


class Encoder(Stack):
    """A stack of blocks over an embedded sequence."""

    def __init__(
        self,
        config: EncoderConfig,
        make_attention: Callable[[int, nnx.Rngs], nnx.Module],
        *,
        rngs: nnx.Rngs,
    ):
        """Builds the blocks.

        Args:
            config: sizes and options.
            make_attention: (layer index from 0, rngs) → attention layer.
            rngs: for the initial parameters.

        Raises:
            UserError: the position scheme is unknown or cannot have these sizes.
        """

        def make_block(index: int) -> Block:
            return Block(config, make_attention(index, rngs), rngs=rngs)

        super().__init__(config, make_block, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        *,
        segment_ids: Int[Array, "b t"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Encodes x, in the config's dtype.

        Args:
            x: the embedded sequence.
            segment_ids: examples packed in a row are encoded apart; 0 is padding.
            positions: None = 0, 1, … restarting at each segment.
            rngs: for dropout, stream "dropout"; None = deterministic.
        """
        if positions is None:
            positions = segments.default_positions(x.shape[1], segment_ids)
        x = self.enter(x, positions, rngs)
        for block in self.blocks:
            x = block(x, segment_ids=segment_ids, positions=positions, rngs=rngs)
        return self.leave(x)
