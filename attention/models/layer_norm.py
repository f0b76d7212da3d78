"""Layer normalization over the features of each position.

Layer Normalization (2016), arXiv 1607.06450.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

EPSILON = 1e-6


class LayerNorm(nnx.Module):
    """(x − mean) / √(variance + ε) · scale + bias, in float32; the result has the type of x."""

    def __init__(self, dim: int):
        self.scale = nnx.Param(jnp.ones((dim,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((dim,), jnp.float32))

    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        # Over features only: statistics over time would show a position its future.
        wide = x.astype(jnp.float32)
        centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        normed = centred * jax.lax.rsqrt(variance + EPSILON)
        return (normed * self.scale[...][None, None] + self.bias[...][None, None]).astype(x.dtype)
