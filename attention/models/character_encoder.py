"""A convolution over the characters of each word, so that unseen words have a vector too.

Character-level convolutions for tagging: Ma and Hovy (2016), arXiv 1603.01354.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.core.linear import Linear
from attention.models.embedding import Embedding

PADDING = 0


# Few letters need few numbers, and most of the work is proportional to them.
EMBEDDING_DIM = 32


class CharacterEncoder(nnx.Module):
    """Embeds characters, convolves `width` of them at a time, and takes the maximum over a word."""

    def __init__(self, num_chars: int, dim: int, *, width: int = 5, rngs: nnx.Rngs):
        self.width = width
        self.chars = Embedding(num_chars, EMBEDDING_DIM, rngs=rngs)
        self.convolution = Linear(width * EMBEDDING_DIM, dim, rngs=rngs)

    def __call__(self, chars: Int[Array, "b t c"], *, dtype: jnp.dtype) -> Float[Array, "b t d"]:
        """Returns a vector for each word, in `dtype`; zeros for a word without characters.

        Character 0 is padding; how much there is never changes the result.
        """
        b, t, c = chars.shape
        real = (chars != PADDING)[..., None]
        embedded = jnp.where(real, self.chars(chars, dtype=dtype), jnp.zeros((), dtype))
        # Zeros on both sides stand for what padding would bring: an edge is an edge.
        before = (self.width - 1) // 2
        around = ((0, 0), (0, 0), (before, self.width - 1 - before), (0, 0))
        padded = jnp.pad(embedded, around)
        shifted = [padded[:, :, offset : offset + c] for offset in range(self.width)]
        windows = jnp.concatenate(shifted, axis=-1)
        features = jax.nn.relu(self.convolution(windows.reshape(b, t * c, -1)))
        # relu ≥ 0, so that zeros never win over a real character.
        return jnp.max(jnp.where(real, features.reshape(b, t, c, -1), 0.0), axis=2)
