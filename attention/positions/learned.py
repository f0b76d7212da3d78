"""Learned positions: a table with a vector for each position, for the model's input.

Attention Is All You Need (2017), arXiv 1706.03762, section 3.5. `max_length` × d parameters; a
position that the table lacks is an error.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.positions import scheme
from attention.positions.scheme import PositionScheme

PLACE = "input"


@dataclass(frozen=True)
class Config:
    """No options."""


class Learned(PositionScheme):
    """Looks positions up in a table, `embedding` [max_length w]."""

    def __init__(self, width: int, max_length: int, *, rngs: nnx.Rngs):
        table = nnx.initializers.normal(0.02)(rngs.params(), (max_length, width), jnp.float32)
        self.embedding = nnx.Param(table)

    def vectors(self, positions: Int[Array, "#b t"]) -> Float[Array, "#b t w"]:
        """Returns the rows of the table; a position past it: see `scheme.rows`."""
        return scheme.rows("learned", self.embedding[...], positions)


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> Learned:
    """Makes the table; raises UserError without a max_length."""
    return Learned(width, scheme.table_length("learned", max_length), rngs=rngs)
