"""The affine map of all models: float32 parameters, products in the activations' type."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention.ops.products import affine


class Linear(nnx.Module):
    """y = x · kernel + bias, for x [b t d] of any float type; y has the type of x."""

    def __init__(self, num_in: int, num_out: int, *, rngs: nnx.Rngs):
        initial = nnx.initializers.xavier_uniform()(rngs.params(), (num_in, num_out), jnp.float32)
        self.kernel = nnx.Param(initial)
        self.bias = nnx.Param(jnp.zeros((num_out,), jnp.float32))

    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t f"]:
        return affine(x, self.kernel[...], self.bias[...])
