"""Shaw's relative positions: learned vectors for each distance, added to keys and to values.

Self-Attention with Relative Position Representations (2018), arXiv 1803.02155:
e_ij = q_i · (k_j + aᴷ[clip(j−i, −c, c)]) · scale, out_i = Σ_j A_ij (v_j + aⱽ[clip(j−i, −c, c)]).
2(2c+1)h parameters a layer, shared by its heads; any position.
"""

from dataclasses import dataclass, field

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention.ops.relative import Shaw
from attention.positions.scheme import PositionScheme, check, is_count

PLACE = "attention"


@dataclass(frozen=True)
class Config:
    """Options, set under `model.positions.shaw`.

    Attributes:
        max_distance: c; farther distances share its vectors, in positions. The paper's values
            differ by task; it finds little difference from 2 on.

    Raises:
        UserError: a value that is not allowed.
    """

    max_distance: int = field(default=16, metadata={"examples": (2,)})

    def __post_init__(self):
        farthest = self.max_distance
        check(is_count(farthest), "shaw", "max_distance", farthest, "a whole number of at least 1")


class ShawPosition(PositionScheme):
    """The terms and their tables, `key_table` and `value_table` [2c+1 h]."""

    def __init__(self, config: Config, head_dim: int, *, rngs: nnx.Rngs):
        initial = nnx.initializers.xavier_uniform()
        shape = (2 * config.max_distance + 1, head_dim)
        self.key_table = nnx.Param(initial(rngs.params(), shape, jnp.float32))
        self.value_table = nnx.Param(initial(rngs.params(), shape, jnp.float32))

    def relative(self) -> Shaw:
        return Shaw()

    def arrays(self) -> dict[str, Array]:
        return {"key_table": self.key_table[...], "value_table": self.value_table[...]}


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> ShawPosition:
    """Makes the tables for heads of size `width`."""
    return ShawPosition(config, width, rngs=rngs)
