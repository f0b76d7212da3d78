"""A table with a vector for each id, which can also score each id as an output.

Using the Output Embedding to Improve Language Models (2017), arXiv 1608.05859; Attention Is All You
Need (2017), arXiv 1706.03762, section 3.4, multiplies the vectors of a table that input and output
share by √d.
"""

import math

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.core.dropout import Dropout
from attention.ops.products import bilinear

PADDING, UNKNOWN = 0, 1

# The gradient of the table comes out as [d v]: turning it round costs less than multiplying so.
_logits = bilinear("btd,vd->btv", "btv,vd->btd", "btd,btv->dv")


class Embedding(nnx.Module):
    """Looks ids up in a float32 table, `embedding` [num_ids d], whose entries have variance 1/d.

    So the logits of a state with features of variance 1 have variance 1. With `scaled`, vectors are
    multiplied by √d on their way in, and their features have variance 1 as well: what sinusoidal
    positions, say, are added to.
    """

    def __init__(self, num_ids: int, dim: int, *, scaled: bool = False, rngs: nnx.Rngs):
        initial = nnx.initializers.normal(dim**-0.5)(rngs.params(), (num_ids, dim), jnp.float32)
        self.embedding = nnx.Param(initial)
        self.scale = math.sqrt(dim) if scaled else None

    def __call__(self, ids: Int[Array, "..."], *, dtype: jnp.dtype | str) -> Float[Array, "... d"]:
        """Returns the vectors of the ids, in `dtype`; an id past the table gives NaN."""
        rows = jnp.take(self.embedding[...], ids, axis=0, mode="fill", fill_value=jnp.nan)
        return (rows if self.scale is None else rows * self.scale).astype(dtype)

    def logits(self, x: Float[Array, "b t d"]) -> Float[Array, "b t v"]:
        """Returns x · tableᵀ in float32, multiplied in the type of x.

        A loss over a large vocabulary takes half the time without them: see `models.token_loss`.
        """
        return _logits(x, self.embedding[...])


def replace_words(
    ids: Int[Array, "b t"], dropout: Dropout, *, rngs: nnx.Rngs | None
) -> Int[Array, "b t"]:
    """Word dropout: returns ids with words replaced by the unknown one, each at the dropout's rate.

    Padding stays padding; nothing is replaced where `rngs` is None.
    """
    kept = dropout.mask(ids.shape, rngs=rngs)
    return ids if kept is None else jnp.where(kept | (ids == PADDING), ids, UNKNOWN)


def segments_or(segment_ids: Int[Array, "b t"] | None, ids: Int[Array, "b t"]) -> Array:
    """Returns the segment ids given; None means one example a row, up to its padding (id 0)."""
    return (ids != PADDING).astype(jnp.int32) if segment_ids is None else segment_ids
