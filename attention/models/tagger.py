"""A tagger: words to vectors, an encoder, and a score for each tag of each word."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.core.linear import Linear
from attention.models.encoder import Encoder
from attention.models.word_encoder import WordEncoder


class Tagger(nnx.Module):
    """Scores c tags for each word."""

    def __init__(
        self, word_encoder: WordEncoder, encoder: Encoder, num_tags: int, *, rngs: nnx.Rngs
    ):
        self.word_encoder = word_encoder
        self.encoder = encoder
        self.head = Linear(encoder.config.dim, num_tags, rngs=rngs)

    def __call__(
        self,
        words: Int[Array, "b t"],
        chars: Int[Array, "b t c"],
        *,
        segment_ids: Int[Array, "b t"] | None = None,
        positions: Int[Array, "#b t"] | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t v"]:
        """Returns logits, in float32 whatever the activations are.

        Args:
            words, chars: ids of the words and of their characters; 0 is padding.
            segment_ids: sentences packed in a row are tagged apart; 0 is padding.
            positions: None = 0, 1, … restarting at each sentence.
            rngs: for dropout, stream "dropout"; None = deterministic.
        """
        x = self.word_encoder(words, chars, rngs=rngs)
        x = self.encoder(x, segment_ids=segment_ids, positions=positions, rngs=rngs)
        return self.head(x.astype(jnp.float32))
