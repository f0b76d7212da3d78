"""Words to vectors: a word embedding and a character encoder, joined."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.core.settings import as_dtype
from attention.errors import UserError
from attention.models.character_encoder import CharacterEncoder
from attention.models.embedding import Embedding

PADDING, UNKNOWN = 0, 1


class WordEncoder(nnx.Module):
    """Joins what is known of a word as a whole with what its characters show."""

    def __init__(
        self,
        num_words: int,
        num_chars: int,
        *,
        dim: int,
        word_dim: int,
        char_dim: int,
        use_words: bool = True,
        use_chars: bool = True,
        word_dropout_rate: float = 0.0,
        dtype: str | type | jnp.dtype = "float32",
        rngs: nnx.Rngs,
    ):
        """Builds the two encoders and the map that joins them.

        Args:
            num_words, num_chars: sizes of the vocabularies; id 0 is padding, word 1 is unknown.
            dim: width of the result.
            word_dim, char_dim: widths of the word embedding and of the character encoder.
            use_words, use_chars: each can be left out, not both.
            word_dropout_rate: share of words replaced by the unknown word in training, so that
                characters and context learn to stand in for it.
            dtype: of the activations.
            rngs: for the initial parameters.

        Raises:
            UserError: both are left out.
        """
        if not (use_words or use_chars):
            raise UserError(
                "a word needs a vector: set model.use_words=True or model.use_chars=True"
            )
        self.dtype = as_dtype(dtype)
        self.words = Embedding(num_words, word_dim, rngs=rngs) if use_words else None
        self.chars = CharacterEncoder(num_chars, char_dim, rngs=rngs) if use_chars else None
        self.word_dropout = Dropout(word_dropout_rate)
        joined = (word_dim if use_words else 0) + (char_dim if use_chars else 0)
        self.join = Linear(joined, dim, rngs=rngs)

    def __call__(
        self,
        words: Int[Array, "b t"],
        chars: Int[Array, "b t c"],
        *,
        rngs: nnx.Rngs | None = None,
    ) -> Float[Array, "b t d"]:
        """Returns a vector for each word; `rngs` (stream "dropout") turns word dropout on."""
        parts = []
        if self.words is not None:
            kept = self.word_dropout.mask(words.shape, rngs=rngs)
            if kept is not None:
                words = jnp.where(kept | (words == PADDING), words, UNKNOWN)
            parts.append(self.words(words, dtype=self.dtype))
        if self.chars is not None:
            parts.append(self.chars(chars, dtype=self.dtype))
        return self.join(jnp.concatenate(parts, axis=-1))
