"""Products of two arrays, accumulated in float32, with the backward passes a CPU likes.

The automatic derivatives multiply a float32 gradient by bfloat16 operands, which runs in float32,
and compute the gradient of a kernel transposed: 1.3 (float32) to 4 times (bfloat16) slower. Stating
the float32 result doubles the speed of bfloat16 products on CPUs under jax 0.10. There is no
`jax.jvp` of these functions; of their gradients there is.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def bilinear(forward: str, to_left: str, to_right: str) -> Callable[[Array, Array], Array]:
    """Returns the product of two arrays that an einsum string spells out.

    It multiplies in the narrower of the operands' types and returns float32; gradients have the
    type of their operand.

    Args:
        forward: "left,right->result".
        to_left, to_right: the einsum strings of the gradients, from the subscripts of the result
            and of the other operand, in the order that runs fastest.
    """
    operands, result = forward.split("->")
    left_name, right_name = operands.split(",")

    def contract(spec: str, arrays: dict[str, Array], dtype: jnp.dtype) -> Array:
        names = spec.split("->")[0].split(",")
        narrow = [arrays[name].astype(dtype) for name in names]
        product = jnp.einsum(spec, *narrow, preferred_element_type=jnp.float32)
        # XLA on CPUs cannot run bfloat16 products with a float32 result in every layout, and fails
        # at run time where what follows makes it choose such a layout. The barrier hides that.
        return jax.lax.optimization_barrier(product)

    def compute(left: Array, right: Array) -> Array:
        return contract(forward, {left_name: left, right_name: right}, _narrower(left, right))

    def back(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
        left, right = kept
        arrays = {left_name: left, right_name: right, result: gradient}
        dtype = _narrower(left, right)
        return (
            contract(to_left, arrays, dtype).astype(left.dtype),
            contract(to_right, arrays, dtype).astype(right.dtype),
        )

    product = jax.custom_vjp(compute)
    # The forward pass is `compute`, not `product`, so that gradients have a jvp, for Hessians.
    product.defvjp(lambda left, right: (compute(left, right), (left, right)), back)
    return product


def _narrower(left: Array, right: Array) -> jnp.dtype:
    return min(left.dtype, right.dtype, key=lambda dtype: dtype.itemsize)


score_product = bilinear("btkh,bskh->bkts", "bkts,bskh->btkh", "bkts,btkh->bskh")
value_product = bilinear("bkts,bskh->btkh", "btkh,bskh->bkts", "bkts,btkh->bskh")
_projected = bilinear("btd,df->btf", "btf,df->btd", "btd,btf->df")


def project(x: Float[Array, "b t d"], kernel: Float[Array, "d f"]) -> Float[Array, "b t f"]:
    """Returns x · kernel in the type of x."""
    return _projected(x, kernel).astype(x.dtype)
