"""A Transformer decoder around any attention layers, for whole sequences and step by step.

Attention Is All You Need (2017), arXiv 1706.03762, section 3.1: each block attends to the target so
far, then to what the encoder made of the source, then has an MLP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.models.encoder import EncoderConfig, Mlp, Stack, Sublayers
from attention.models.layer_norm import LayerNorm
from attention.ops import segments


class Memory(NamedTuple):
    """What an encoder made of the source.

    Attributes:
        states: a vector for each token.
        segment_ids: which example each token is of; 0 is padding.
    """

    states: Float[Array, "b s d"]
    segment_ids: Int[Array, "b s"]


class BlockCache(NamedTuple):
    """The caches of a block's two attention layers."""

    to_self: Any
    to_memory: Any


class DecoderState(NamedTuple):
    """What step-by-step decoding carries; the batch leads every leaf, so beams are indexed.

    Attributes:
        position: the number of tokens each row has; that of its next one.
        caches: one for each block.
    """

    position: Int[Array, " b"]
    caches: tuple[BlockCache, ...]


class DecoderBlock(Sublayers):
    """Attention to the target so far, attention to the memory, and an MLP."""

    def __init__(
        self,
        config: EncoderConfig,
        self_attention: nnx.Module,
        cross_attention: nnx.Module,
        *,
        rngs: nnx.Rngs,
    ):
        super().__init__(config)
        self.self_attention: Any = self_attention
        self.self_attention_norm = LayerNorm(config.dim)
        self.cross_attention: Any = cross_attention
        self.cross_attention_norm = LayerNorm(config.dim)
        self.mlp = Mlp(config, rngs=rngs)
        self.mlp_norm = LayerNorm(config.dim)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        memory: Memory,
        *,
        segment_ids: Int[Array, "b t"],
        positions: Int[Array, "#b t"],
        rngs: nnx.Rngs | None,
    ) -> Float[Array, "b t d"]:
        x = self._after_self_attention(x, segment_ids, positions, rngs)
        y = self.cross_attention(
            self.before(x, self.cross_attention_norm),
            context=memory.states,
            segment_ids=segment_ids,
            context_segment_ids=memory.segment_ids,
            rngs=rngs,
        )
        x = self.after(x, y, self.cross_attention_norm, rngs)
        return self.after(x, self.mlp(self.before(x, self.mlp_norm)), self.mlp_norm, rngs)

    def alignments(
        self,
        x: Float[Array, "b t d"],
        memory: Memory,
        *,
        segment_ids: Int[Array, "b t"],
        positions: Int[Array, "#b t"],
    ) -> Float[Array, "b n t s"]:
        """Returns the weights of attention to the memory in a call with the same arguments."""
        x = self._after_self_attention(x, segment_ids, positions, None)
        return self.cross_attention.weights(
            self.before(x, self.cross_attention_norm),
            context=memory.states,
            segment_ids=segment_ids,
            context_segment_ids=memory.segment_ids,
        )

    def _after_self_attention(self, x, segment_ids, positions, rngs):
        y = self.self_attention(
            self.before(x, self.self_attention_norm),
            segment_ids=segment_ids,
            positions=positions,
            rngs=rngs,
        )
        return self.after(x, y, self.self_attention_norm, rngs)

    def init_cache(self, memory: Memory, max_length: int) -> BlockCache:
        """Returns the caches before the first of up to max_length tokens."""
        batch, context = memory.states.shape[0], memory.states
        return BlockCache(
            self.self_attention.init_cache(batch, max_length),
            self.cross_attention.init_cache(
                batch, max_length, context=context, context_segment_ids=memory.segment_ids
            ),
        )

    def step(
        self, x: Float[Array, "b 1 d"], memory: Memory, cache: BlockCache
    ) -> tuple[Float[Array, "b 1 d"], BlockCache]:
        """Does for the next token what a call does for all."""
        asked = self.before(x, self.self_attention_norm)
        y, to_self = self.self_attention.decode(asked, cache.to_self)
        x = self.after(x, y, self.self_attention_norm, None)
        asked = self.before(x, self.cross_attention_norm)
        y, to_memory = self.cross_attention.decode(asked, cache.to_memory, context=memory.states)
        x = self.after(x, y, self.cross_attention_norm, None)
        x = self.after(x, self.mlp(self.before(x, self.mlp_norm)), self.mlp_norm, None)
        return x, BlockCache(to_self, to_memory)


class Decoder(Stack):
    """A stack of blocks over the embedded target and a memory."""

    def __init__(
        self,
        config: EncoderConfig,
        make_self_attention: Callable[[int, nnx.Rngs], nnx.Module],
        make_cross_attention: Callable[[int, nnx.Rngs], nnx.Module],
        *,
        rngs: nnx.Rngs,
    ):
        """Builds the blocks.

        Args:
            config: sizes and options.
            make_self_attention: (layer index from 0, rngs) → causal attention layer.
            make_cross_attention: (layer index from 0, rngs) → attention layer that is not causal,
                has no positions, and takes a context of the memory's width.
            rngs: for the initial parameters.

        Raises:
            UserError: the position scheme is unknown or cannot have these sizes.
        """

        def make_block(index: int) -> DecoderBlock:
            layers = make_self_attention(index, rngs), make_cross_attention(index, rngs)
            return DecoderBlock(config, *layers, rngs=rngs)

        super().__init__(config, make_block, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        memory: Memory,
        *,
        segment_ids: Int[Array, "b t"],
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Decodes all of x at once, in the config's dtype.

        Args:
            x: the embedded target, shifted so that each position is to give the next token.
            memory: what the encoder made of the source.
            segment_ids: each example sees itself, and that example's part of the memory, which may
                be empty; 0 is padding.
            positions: None = 0, 1, … restarting at each segment.
            rngs: for dropout, stream "dropout"; None = deterministic.
        """
        if positions is None:
            positions = segments.default_positions(x.shape[1], segment_ids)
        x = self.enter(x, positions, rngs)
        for block in self.blocks:
            x = block(x, memory, segment_ids=segment_ids, positions=positions, rngs=rngs)
        return self.leave(x)

    def alignments(
        self,
        x: Float[Array, "b t d"],
        memory: Memory,
        *,
        segment_ids: Int[Array, "b t"],
        positions: Int[Array, "#b t"] | None = None,
    ) -> Float[Array, "b n t s"]:
        """Returns the last block's weights of attention to the memory; arguments as in a call."""
        if positions is None:
            positions = segments.default_positions(x.shape[1], segment_ids)
        x = self.enter(x, positions)
        *before, last = self.blocks
        for block in before:
            x = block(x, memory, segment_ids=segment_ids, positions=positions, rngs=None)
        return last.alignments(x, memory, segment_ids=segment_ids, positions=positions)

    def check_length(self, max_length: int) -> None:
        """Raises UserError where the position scheme has a table that ends before."""
        # Its shape alone: what matters is whether the scheme refuses, here and not in a loop.
        last: Any = np.array([[max_length - 1]], np.int32)
        jax.eval_shape(lambda: self.position.vectors(last))

    def start(self, memory: Memory, max_length: int) -> DecoderState:
        """Returns the state before the first of up to max_length tokens a row.

        Args:
            memory: of one example a row: segment ids are 1 and 0.
            max_length: the most tokens that `step` is going to be given.

        Raises:
            UserError: see `check_length`.
        """
        self.check_length(max_length)
        caches = tuple(block.init_cache(memory, max_length) for block in self.blocks)
        return DecoderState(jnp.zeros((memory.states.shape[0],), jnp.int32), caches)

    def step(
        self, x: Float[Array, "b 1 d"], memory: Memory, state: DecoderState
    ) -> tuple[Float[Array, "b 1 d"], DecoderState]:
        """Decodes the next token of each row.

        Raises:
            ValueError: past the max_length of `start`; inside jit, the layers' caches say so.
        """
        x = self.enter(x, state.position[:, None])
        caches = []
        for block, cache in zip(self.blocks, state.caches, strict=True):
            x, cache = block.step(x, memory, cache)
            caches.append(cache)
        return self.leave(x), DecoderState(state.position + 1, tuple(caches))
