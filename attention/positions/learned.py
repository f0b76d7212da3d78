"""Learned positions: a table with a vector for each position, added to the model's input.

Attention Is All You Need (2017), arXiv 1706.03762, section 3.5. `max_length` × d parameters; a
position that the table lacks is an error.
"""

import jax.numpy as jnp
from flax import nnx
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from attention.errors import UserError
from attention.positions.none import NoPosition

PLACE = "input"


class Learned(NoPosition):
    """Adds the row of a table, `embedding` [max_length d], that belongs to the position."""

    def __init__(self, width: int, max_length: int, *, rngs: nnx.Rngs):
        table = nnx.initializers.normal(0.02)(rngs.params(), (max_length, width), jnp.float32)
        self.embedding = nnx.Param(table)

    def embed(
        self, x: Float[Array, "b t d"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t d"]:
        """Adds the rows of the table.

        Raises:
            UserError: a position is past the table. Inside jit, where its value is not known, the
                result of such a position is NaN, so that it cannot pass for a right one.
        """
        table = self.embedding[...]
        max_length = table.shape[0]
        if not isinstance(positions, Tracer) and jnp.max(positions) >= max_length:
            raise UserError(
                f"position {int(jnp.max(positions))} is past the last learned one, "
                f"{max_length - 1}: raise data.max_length, or choose another model.position"
            )
        rows = jnp.take(table, positions, axis=0, mode="fill", fill_value=jnp.nan)
        return x + rows.astype(x.dtype)


def make(width: int, *, max_length: int | None, rngs: nnx.Rngs) -> Learned:
    """Makes the table; raises UserError without a max_length."""
    if max_length is None:
        raise UserError("model.position='learned' needs data.max_length: the size of its table")
    return Learned(width, max_length, rngs=rngs)
