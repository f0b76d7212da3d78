"""A table with a vector for each id."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int


class Embedding(nnx.Module):
    """Looks ids up in a float32 table, `embedding` [num_ids d]."""

    def __init__(self, num_ids: int, dim: int, *, rngs: nnx.Rngs):
        initial = nnx.initializers.normal(dim**-0.5)(rngs.params(), (num_ids, dim), jnp.float32)
        self.embedding = nnx.Param(initial)

    def __call__(self, ids: Int[Array, "..."], *, dtype: jnp.dtype) -> Float[Array, "... d"]:
        """Returns the vectors of the ids, in `dtype`; an id past the table gives NaN."""
        rows = jnp.take(self.embedding[...], ids, axis=0, mode="fill", fill_value=jnp.nan)
        return rows.astype(dtype)
