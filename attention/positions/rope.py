"""Rotary positions: queries and keys are turned by angles that grow with their position.

RoFormer (2021), arXiv 2104.09864. Pair i of a head is turned by position / 10000^(2i/h), so that
the product of a query and a key depends on their distance only. Layout "half": feature i is paired
with feature i + h/2. No parameters, any position; the head size must be even.
"""

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from attention.errors import UserError
from attention.positions.none import NoPosition

PLACE = "attention"


class Rope(NoPosition):
    """Turns the pairs of features of each head."""

    def __init__(self, head_dim: int, *, base: float = 10000.0):
        if head_dim % 2:
            raise UserError(
                f"model.position='rope' pairs the features of a head, and {head_dim=} is odd: "
                f"change model.dim or model.num_heads"
            )
        self.base = base

    def rotate(
        self, x: Float[Array, "b t n h"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t n h"]:
        half = x.shape[-1] // 2
        # Angles in float32, whatever the activations are: bfloat16 merges positions above 256.
        frequencies = jnp.float32(self.base ** (-np.arange(half) / half))
        angles = positions[:, :, None, None].astype(jnp.float32) * frequencies[None, None, None, :]
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        turned = [first * cos - second * sin, second * cos + first * sin]
        return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def make(width: int, *, max_length: int | None, rngs: nnx.Rngs) -> Rope:
    """Makes rotary positions for heads of size `width`."""
    return Rope(width)
