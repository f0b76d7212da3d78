"""Sinusoidal positions, added to the model's input.

Attention Is All You Need (2017), arXiv 1706.03762, section 3.5:
p[2i] = sin(position / 10000^(2i/d)), p[2i+1] = cos(position / 10000^(2i/d)).
No parameters, any position, any width (an odd one ends on a sine).
"""

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.positions.none import NoPosition

PLACE = "input"


class Sinusoidal(NoPosition):
    """Adds sines and cosines of the position."""

    def embed(
        self, x: Float[Array, "b t d"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t d"]:
        return x + sinusoids(positions, x.shape[-1]).astype(x.dtype)


def sinusoids(positions: Int[Array, "b t"], width: int) -> Float[Array, "b t d"]:
    """Returns the sines (even features) and cosines (odd features) of the positions, in float32."""
    # float32: bfloat16 tells apart only 769 of the first 4096 positions.
    frequencies = 10000.0 ** (-2.0 * np.arange((width + 1) // 2) / width)
    angles = positions[..., None].astype(jnp.float32) * jnp.float32(frequencies)[None, None, :]
    both = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return both.reshape(*positions.shape, -1)[..., :width]


def make(width: int, *, max_length: int | None, rngs: nnx.Rngs) -> Sinusoidal:
    """Makes sinusoidal positions; they have neither parameters nor a longest position."""
    return Sinusoidal()
