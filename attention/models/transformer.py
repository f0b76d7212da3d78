"""A Transformer from one sequence to another, with any attention layer in each of three places.

Attention Is All You Need (2017), arXiv 1706.03762.
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int

from attention.errors import UserError, did_you_mean
from attention.models.decoder import Decoder, DecoderState, Memory
from attention.models.embedding import Embedding, segments_or
from attention.models.encoder import Encoder

TIES = ("all", "output", "none")


class Transformer(nnx.Module):
    """Scores v target tokens at each position of the target, given the source."""

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        *,
        source_size: int,
        target_size: int,
        tied_embeddings: str = "all",
        rngs: nnx.Rngs,
    ):
        """Makes the tables of vectors around an encoder and a decoder.

        Args:
            encoder, decoder: the stacks.
            source_size, target_size: ids of each vocabulary, special ones included.
            tied_embeddings: "all": source, target and output share one table, for a vocabulary of
                both languages; "output": target and output share one; "none": three tables.
            rngs: for the initial parameters.

        Raises:
            UserError: an unknown way to tie; sizes that cannot be tied; a vocabulary without ids.
        """
        _check(encoder, decoder, source_size, target_size, tied_embeddings)
        dim = decoder.config.dim
        self.target_embed = Embedding(target_size, dim, scaled=True, rngs=rngs)
        shared = tied_embeddings == "all"
        self.source_embed = (
            None if shared else Embedding(source_size, encoder.config.dim, scaled=True, rngs=rngs)
        )
        tied = tied_embeddings != "none"
        self.output = None if tied else Embedding(target_size, dim, rngs=rngs)
        self.encoder = encoder
        self.decoder = decoder

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

        Args:
            source: ids of the source; 0 is padding.
            inputs: ids of the target behind a first BOS (teacher forcing).
            source_segment_ids, target_segment_ids: pairs packed in a row have an id each, the same
                in both; 0 is padding. None = one pair a row.
            source_positions, target_positions: None = 0, 1, … restarting at each segment.
            rngs: for dropout, stream "dropout"; None = deterministic.
        """
        states = self.states(
            source,
            inputs,
            source_segment_ids=source_segment_ids,
            target_segment_ids=target_segment_ids,
            source_positions=source_positions,
            target_positions=target_positions,
            rngs=rngs,
        )
        return self.output_embed.logits(states)

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
        """Returns what a call makes logits of, for a loss that needs no array of them."""
        memory = self.encode(
            source, segment_ids=source_segment_ids, positions=source_positions, rngs=rngs
        )
        return self.decoder(
            self.target_embed(inputs, dtype=self.decoder.config.dtype),
            memory,
            segment_ids=segments_or(target_segment_ids, inputs),
            positions=target_positions,
            rngs=rngs,
        )

    def alignments(
        self,
        source: Int[Array, "b s"],
        inputs: Int[Array, "b t"],
        *,
        source_segment_ids: Int[Array, "b s"] | None = None,
        target_segment_ids: Int[Array, "b t"] | None = None,
    ) -> Float[Array, "b n t s"]:
        """Returns how much the last block attends to each source token before the next target one.

        Arguments as in a call.
        """
        return self.decoder.alignments(
            self.target_embed(inputs, dtype=self.decoder.config.dtype),
            self.encode(source, segment_ids=source_segment_ids),
            segment_ids=segments_or(target_segment_ids, inputs),
        )

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
    ) -> Memory:
        """Returns what the decoder needs of the source; arguments as in a call."""
        embed = self.target_embed if self.source_embed is None else self.source_embed
        segment_ids = segments_or(segment_ids, source)
        x = embed(source, dtype=self.encoder.config.dtype)
        states = self.encoder(x, segment_ids=segment_ids, positions=positions, rngs=rngs)
        return Memory(states, segment_ids)

    def check_length(self, max_length: int) -> None:
        """Raises UserError where targets cannot be so long; see `Decoder.check_length`."""
        self.decoder.check_length(max_length)

    def start(self, memory: Memory, max_length: int) -> DecoderState:
        """Returns the state before the first token; see `Decoder.start`."""
        return self.decoder.start(memory, max_length)

    def step(
        self, memory: Memory, state: DecoderState, tokens: Int[Array, " b"]
    ) -> tuple[Float[Array, "b v"], DecoderState]:
        """Returns the logits of the token that follows the given ones, and the next state.

        Args:
            memory: of one example a row: segment ids are 1 and 0.
            state: what `start` or the last call returned.
            tokens: the next of each row, a BOS at first.

        Raises:
            ValueError: past the max_length of `start`; inside jit, the layers' caches say so.
        """
        x = self.target_embed(tokens[:, None], dtype=self.decoder.config.dtype)
        x, state = self.decoder.step(x, memory, state)
        return self.output_embed.logits(x)[:, 0], state


def _check(encoder: Encoder, decoder: Decoder, source_size: int, target_size: int, tied: str):
    if tied not in TIES:
        hint = did_you_mean(tied, TIES)
        raise UserError(f"model.tied_embeddings={tied!r} is not one of {', '.join(TIES)}{hint}")
    if min(source_size, target_size) < 1:
        raise UserError(f"a vocabulary has no ids: {source_size=}, {target_size=}")
    if tied == "all" and source_size != target_size:
        raise UserError(
            f"model.tied_embeddings='all' needs one vocabulary of both languages, and the source "
            f"has {source_size} ids and the target {target_size}: set model.tied_embeddings=output"
        )
    widths = encoder.config.dim, decoder.config.dim
    if tied == "all" and widths[0] != widths[1]:
        raise UserError(
            f"model.tied_embeddings='all' needs one width, and the encoder has {widths[0]} and the "
            f"decoder {widths[1]}: set model.tied_embeddings=output or change model.dim"
        )
