"""Normalization of queries and keys over each head (qk-norm), with a learned gain.

"rms": arXiv 2010.04245 with the norm of arXiv 1910.07467; "layer": arXiv 2302.05442.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

EPSILON = 1e-6


class HeadNorm(nnx.Module):
    """x / √(mean x² + ε) · gain over each head, in float32; "layer" takes the mean off first."""

    def __init__(self, size: int, *, kind: str = "rms", epsilon: float = EPSILON):
        self.gain = nnx.Param(jnp.ones((size,), jnp.float32))
        self.centred = kind == "layer"
        self.epsilon = epsilon

    def __call__(self, x: Float[Array, "b t n h"]) -> Float[Array, "b t n h"]:
        wide = x.astype(jnp.float32)
        if self.centred:
            wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
        square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
        normed = wide * jax.lax.rsqrt(square + self.epsilon)
        return (normed * self.gain[...][None, None, None]).astype(x.dtype)
