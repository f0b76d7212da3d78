"""A recurrent model from one sequence to another, with any attention between them, or none.

Bahdanau et al. 2014, arXiv 1409.0473; Luong et al. 2015, arXiv 1508.04025; without attention Cho et
al. 2014, arXiv 1406.1078. It has the surface of `models.transformer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.errors import UserError
from attention.models.embedding import Embedding, segments_or
from attention.models.pointer import PointerHead
from attention.models.recurrence import RecurrentConfig, RecurrentEncoder
from attention.models.recurrent_decoder import RecurrentDecoder, RecurrentState
from attention.ops.option_checks import check_choice, check_count

TIES = ("all", "output", "none")
POINTERS = ("none", "alone", "mixed")


class SourceMemory(NamedTuple):
    """What an encoder made of the source; the batch leads every leaf.

    Attributes:
        states: a vector for each token.
        segment_ids: which example each token is of; 0 is padding.
        tokens: the source itself, for a pointer.
    """

    states: Float[Array, "b s d"]
    segment_ids: Int[Array, "b s"]
    tokens: Int[Array, "b s"]


class Seq2SeqState(NamedTuple):
    """What step-by-step decoding carries; the batch leads every leaf, so beams are indexed."""

    decoder: RecurrentState
    pointer_keys: Any  # [b s d], or ()


class RecurrentSeq2Seq(nnx.Module):
    """Scores v target tokens at each position of the target, given the source."""

    def __init__(
        self,
        config: RecurrentConfig,
        make_attention: Callable[[int, nnx.Rngs], nnx.Module] | None,
        *,
        source_size: int,
        target_size: int,
        tied_embeddings: str = "output",
        pointer: str = "none",
        end_id: int | None = None,
        rngs: nnx.Rngs,
    ):
        """Makes the model.

        Args:
            config: sizes and options.
            make_attention: (layer index, rngs) → a layer for cross-attention, of width dim and with
                a context of width dim, that can decode; None = no attention: a fixed vector.
            source_size, target_size: ids of each vocabulary, special ones included.
            tied_embeddings: "all": source, target and output share one table; "output": target and
                output share one; "none": three tables.
            pointer: "none", or a copy head "alone" or "mixed" with generation: see `PointerHead`.
            end_id: what a pointer alone ends with.
            rngs: for the initial parameters.

        Raises:
            UserError: an option that is not known, or sizes that cannot be tied or pointed at.
        """
        _check(source_size, target_size, tied_embeddings, pointer)
        self.config = config
        self.size = target_size
        dim = config.dim
        self.target_embed = Embedding(target_size, dim, scaled=True, rngs=rngs)
        self.source_embed = (
            None
            if tied_embeddings == "all"
            else Embedding(source_size, dim, scaled=True, rngs=rngs)
        )
        untied = tied_embeddings == "none" and pointer != "alone"
        self.output = Embedding(target_size, dim, rngs=rngs) if untied else None
        self.encoder = RecurrentEncoder(config, rngs=rngs)
        self.decoder = RecurrentDecoder(config, make_attention, rngs=rngs)
        self.generates = pointer != "alone"
        self.pointer = (
            None
            if pointer == "none"
            else PointerHead(
                pointer,
                dim=dim,
                context_dim=dim,
                end_id=None if self.generates else end_id,
                rngs=rngs,
            )
        )

    def __call__(
        self,
        source: Int[Array, "b s"],
        inputs: Int[Array, "b t"],
        *,
        source_segment_ids: Int[Array, "b s"] | None = None,
        target_segment_ids: Int[Array, "b t"] | None = None,
        source_positions: Int[Array, "#b s"] | None = None,
        target_positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t v"]:
        """Returns the logits of the token that follows each of `inputs`, in float32.

        With a pointer they are log-probabilities, which are logits as well.

        Args:
            source: ids of the source; 0 is padding.
            inputs: ids of the target behind a first BOS (teacher forcing).
            source_segment_ids, target_segment_ids: pairs packed in a row have an id each, the same
                in both; 0 is padding. None = one pair a row.
            source_positions, target_positions: not looked at; order is built in.
            rngs: for dropout and what attention draws, stream "dropout"; None = deterministic.
        """
        memory = self.encode(source, segment_ids=source_segment_ids, rngs=rngs)
        ids = segments_or(target_segment_ids, inputs)
        x = self._decoded(inputs, memory, ids, rngs)
        return self._logits(x, memory, ids, () if self.pointer is None else self._keys(memory))

    def states(
        self,
        source: Int[Array, "b s"],
        inputs: Int[Array, "b t"],
        *,
        source_segment_ids: Int[Array, "b s"] | None = None,
        target_segment_ids: Int[Array, "b t"] | None = None,
        source_positions: Int[Array, "#b s"] | None = None,
        target_positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Returns what a call makes logits of, for a loss that needs no array of them.

        Raises:
            ValueError: the model has a pointer, which needs more than these.
        """
        if self.pointer is not None:
            raise ValueError("the output of a model with a pointer is not made of states alone")
        memory = self.encode(source, segment_ids=source_segment_ids, rngs=rngs)
        return self._decoded(inputs, memory, segments_or(target_segment_ids, inputs), rngs)

    @property
    def output_embed(self) -> Embedding:
        """The table whose vectors score the states."""
        return self.target_embed if self.output is None else self.output

    def encode(
        self,
        source: Int[Array, "b s"],
        *,
        segment_ids: Int[Array, "b s"] | None = None,
        positions: Int[Array, "#b s"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> SourceMemory:
        """Returns what the decoder needs of the source; arguments as in a call."""
        embed = self.target_embed if self.source_embed is None else self.source_embed
        segment_ids = segments_or(segment_ids, source)
        x = embed(source, dtype=self.config.dtype)
        states = self.encoder(x, segment_ids=segment_ids, rngs=rngs)
        return SourceMemory(states, segment_ids, source)

    def check_length(self, max_length: int) -> None:
        """Refuses nothing: targets of any length can be."""

    def start(self, memory: SourceMemory, max_length: int) -> Seq2SeqState:
        """Returns the state before the first of up to max_length tokens of each row.

        Args:
            memory: of one example a row: segment ids are 1 and 0.
            max_length: the most tokens that `step` is going to be given.
        """
        state = self.decoder.start(memory.states, max_length, source_segment_ids=memory.segment_ids)
        return Seq2SeqState(state, () if self.pointer is None else self._keys(memory))

    def step(
        self, memory: SourceMemory, state: Seq2SeqState, tokens: Int[Array, " b"]
    ) -> tuple[Float[Array, "b v"], Seq2SeqState]:
        """Returns the logits of the token that follows the given ones, and the next state.

        Args:
            memory: of one example a row.
            state: what `start` or the last call returned.
            tokens: the next of each row, a BOS at first.

        Raises:
            ValueError: past the max_length of `start`; inside jit, the attention's cache says so.
        """
        x, after = self.decoder.step(
            self.target_embed(tokens[:, None], dtype=self.config.dtype),
            memory.states,
            state.decoder,
            source_segment_ids=memory.segment_ids,
        )
        ids = jnp.ones((tokens.shape[0], 1), jnp.int32)
        logits = self._logits(x, memory, ids, state.pointer_keys)[:, 0]
        return logits, state._replace(decoder=after)

    def alignments(
        self,
        source: Int[Array, "b s"],
        inputs: Int[Array, "b t"],
        *,
        source_segment_ids: Int[Array, "b s"] | None = None,
        target_segment_ids: Int[Array, "b t"] | None = None,
    ) -> Float[Array, "b n t s"]:
        """Returns the weights of attention in a call with the same arguments.

        Raises:
            UserError: there is no attention, or it has no weights.
        """
        attention = self.decoder.attention
        if attention is None:
            raise UserError("a model without attention has no alignments")
        memory = self.encode(source, segment_ids=source_segment_ids)
        ids = segments_or(target_segment_ids, inputs)
        given = {"source_segment_ids": memory.segment_ids, "segment_ids": ids}
        x = self.target_embed(inputs, dtype=self.config.dtype)
        return attention.weights(
            self.decoder.queries(x, memory.states, **given),
            context=memory.states,
            segment_ids=ids,
            context_segment_ids=memory.segment_ids,
        )

    def _decoded(self, inputs, memory, ids, rngs):
        return self.decoder(
            self.target_embed(inputs, dtype=self.config.dtype),
            memory.states,
            source_segment_ids=memory.segment_ids,
            segment_ids=ids,
            rngs=rngs,
        )

    def _keys(self, memory: SourceMemory) -> Any:
        return () if self.pointer is None else self.pointer.keys(memory.states)

    def _logits(self, x, memory: SourceMemory, ids, keys):
        if self.pointer is None:
            return self.output_embed.logits(x)
        logits = self.output_embed.logits(x) if self.generates else None
        visible = (ids[:, :, None] == memory.segment_ids[:, None, :]) & (ids != 0)[:, :, None]
        return self.pointer(x, keys, memory.tokens, logits, visible=visible, size=self.size)


def _check(source_size: int, target_size: int, tied: str, pointer: str) -> None:
    check_choice("model.tied_embeddings", tied, TIES)
    check_choice("model.pointer", pointer, POINTERS)
    check_count("source_size", source_size)
    check_count("target_size", target_size)
    one = "tied_embeddings='all'" if tied == "all" else f"pointer={pointer!r}"
    if (tied == "all" or pointer != "none") and source_size != target_size:
        raise UserError(
            f"model.{one} needs one vocabulary of both languages, and the source has {source_size} "
            f"ids and the target {target_size}: share the vocabulary or change model."
            f"{one.partition('=')[0]}"
        )
