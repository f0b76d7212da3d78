"""A classifier: tokens to vectors, an encoder, a pooling, and a score for each class."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int

from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.errors import UserError
from attention.models.embedding import Embedding, replace_words, segments_or
from attention.models.encoder import Encoder
from attention.models.pooling import Max, Pooling


class Classifier(nnx.Module):
    """Scores c classes for each example."""

    def __init__(
        self,
        embed: Embedding,
        encoder: Encoder,
        pooling: Pooling | Max,
        num_classes: int,
        *,
        word_dropout_rate: float = 0.0,
        rngs: nnx.Rngs,
    ):
        """Joins the parts.

        Args:
            embed: the vectors of the tokens, as wide as the encoder.
            encoder, pooling: what makes one vector of an example's.
            num_classes: c.
            word_dropout_rate: share of tokens replaced by the unknown one (id 1) in training.
            rngs: for the initial parameters.

        Raises:
            UserError: fewer than one class; a rate outside [0, 1); an embedding of another width.
        """
        width = embed.embedding.shape[1]
        if width != encoder.config.dim:
            raise UserError(
                f"the embedding has width {width} and the encoder {encoder.config.dim}: make both "
                f"model.dim"
            )
        if num_classes < 1:
            raise UserError(f"{num_classes=} must be at least 1: the training data has no labels")
        self.embed = embed
        self.word_dropout = Dropout(word_dropout_rate)
        self.encoder = encoder
        self.pooling = pooling
        self.dropout = Dropout(encoder.config.dropout_rate)
        self.head = Linear(encoder.config.dim, num_classes, rngs=rngs)

    def __call__(
        self,
        ids: Int[Array, "b t"],
        *,
        segment_ids: Int[Array, "b t"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        num_examples: int = 1,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b g c"]:
        """Returns the logits of examples 1 … num_examples of each row, in float32.

        Args:
            ids: of the tokens; 0 is padding.
            segment_ids: examples packed in a row are classified apart; 0 is padding. None = one
                example a row, up to its padding.
            positions: None = 0, 1, … restarting at each example.
            num_examples: the most examples g that a row has; the logits of those it lacks are to be
                left aside.
            rngs: for dropout, stream "dropout"; None = deterministic.
        """
        segment_ids = segments_or(segment_ids, ids)
        x = self.states(ids, segment_ids=segment_ids, positions=positions, rngs=rngs)
        pooled = self.pooling(x, segment_ids, num_examples)
        return self.head(self.dropout(pooled, rngs=rngs))

    def states(
        self,
        ids: Int[Array, "b t"],
        *,
        segment_ids: Int[Array, "b t"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Returns what a call pools: `pooling.weights` of these says what it looks at."""
        segment_ids = segments_or(segment_ids, ids)
        x = self.embed(
            replace_words(ids, self.word_dropout, rngs=rngs), dtype=self.encoder.config.dtype
        )
        return self.encoder(x, segment_ids=segment_ids, positions=positions, rngs=rngs)
