"""Sinusoidal positions, for the model's input.

Attention Is All You Need (2017), arXiv 1706.03762, section 3.5:
p[2i] = sin(position / 10000^(2i/d)), p[2i+1] = cos(position / 10000^(2i/d)).
No parameters, any position, any width (an odd one ends on a sine).
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.positions.scheme import PositionScheme

PLACE = "input"


@dataclass(frozen=True)
class Config:
    """No options."""


class Sinusoidal(PositionScheme):
    """Sines and cosines of the position."""

    def __init__(self, width: int):
        self.width = width

    def vectors(self, positions: Int[Array, "#b t"]) -> Float[Array, "#b t w"]:
        return sinusoids(positions, self.width)


def sinusoids(positions: Int[Array, "b t"], width: int) -> Float[Array, "b t w"]:
    """Returns the sines (even features) and cosines (odd features) of the positions, in float32."""
    # float32: bfloat16 tells apart only 769 of the first 4096 positions.
    frequencies = 10000.0 ** (-2.0 * np.arange((width + 1) // 2) / width)
    angles = positions[..., None].astype(jnp.float32) * jnp.float32(frequencies)[None, None, :]
    both = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return both.reshape(*positions.shape, -1)[..., :width]


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> Sinusoidal:
    """Makes sinusoidal positions; they have neither parameters nor a longest position."""
    return Sinusoidal(width)
