"""ALiBi: scores fall linearly with the distance, at a rate of their own for each head.

Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation (2021),
arXiv 2108.12409. Head i of n adds −2^(−8(i+1)/n) · |key position − query position| to its scores.
For n that is no power of two the slopes are those that the authors' code publishes: those of the
next lower power p, then every other one of those of 2p. No parameters, any position. The paper is
causal; for keys ahead of the query the bias is the mirror image.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from attention.ops.relative import Alibi
from attention.positions.scheme import PositionScheme

PLACE = "attention"


@dataclass(frozen=True)
class Config:
    """No options."""


class AlibiPosition(PositionScheme):
    """The bias and its fixed slopes, for `num_heads` heads."""

    def __init__(self, num_heads: int):
        self.num_heads = num_heads

    def relative(self) -> Alibi:
        return Alibi()

    def arrays(self) -> dict[str, Array]:
        """Returns `slopes` [n]: constants, not parameters."""
        return {"slopes": jnp.asarray(published_slopes(self.num_heads), jnp.float32)}


def published_slopes(num_heads: int) -> np.ndarray:
    """Returns the slopes [n] for any number of heads, in float64."""
    power = 1 << (num_heads.bit_length() - 1)
    between = _geometric(2 * power)[::2]
    return np.concatenate([_geometric(power), between[: num_heads - power]])


def _geometric(num_heads: int) -> np.ndarray:
    return 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> AlibiPosition:
    """Makes the bias for `num_heads` heads."""
    return AlibiPosition(num_heads)
