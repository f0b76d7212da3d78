"""T5's relative positions: a learned number for each bucket of distances and each head.

Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (2019), arXiv
1910.10683, section 2.1; the buckets are those of the authors' code (`attention.ops.relative.T5`).
buckets × n parameters a layer, any position. Departs from T5 in two things: each layer has a table
of its own where T5's layers share one, and the scores keep their variant's scale where T5 has none
(its scale is in its initial values).
"""

from dataclasses import dataclass, field

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention.ops.relative import T5
from attention.positions.scheme import PositionScheme, check, is_count

PLACE = "attention"


@dataclass(frozen=True)
class Config:
    """Options, set under `model.positions.t5`.

    Attributes:
        num_buckets: of all distances; half of them for each direction if the layer is not causal.
        max_distance: from where on all distances share a bucket, in positions.

    Raises:
        UserError: a value that is not allowed.
    """

    num_buckets: int = field(default=32, metadata={"examples": (6,)})
    max_distance: int = field(default=128, metadata={"examples": (20,)})

    def __post_init__(self):
        buckets, farthest = self.num_buckets, self.max_distance
        even = is_count(buckets) and buckets >= 4 and buckets % 2 == 0
        check(even, "t5", "num_buckets", buckets, "an even whole number of at least 4")
        expected = f"a whole number above num_buckets / 2 = {buckets // 2}"
        beyond = is_count(farthest) and farthest > buckets // 2
        check(beyond, "t5", "max_distance", farthest, expected)


class T5Position(PositionScheme):
    """The bias and its table, `bias_table` [buckets n]."""

    def __init__(self, config: Config, width: int, num_heads: int, *, causal: bool, rngs: nnx.Rngs):
        self.config = config
        self.causal = causal
        # T5's own: as for a kernel from the model's width.
        initial = nnx.initializers.normal((num_heads * width) ** -0.5)
        shape = (config.num_buckets, num_heads)
        self.bias_table = nnx.Param(initial(rngs.params(), shape, jnp.float32))

    def relative(self) -> T5:
        return T5(bidirectional=not self.causal, max_distance=self.config.max_distance)

    def arrays(self) -> dict[str, Array]:
        return {"bias_table": self.bias_table[...]}


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> T5Position:
    """Makes the table for `num_heads` heads of size `width`."""
    return T5Position(config, width, num_heads, causal=causal, rngs=rngs)
