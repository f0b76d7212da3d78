"""Products of two arrays, accumulated in float32, with the backward passes a CPU likes.

The automatic derivatives multiply a float32 gradient by bfloat16 operands, which runs in float32,
and compute the gradient of a kernel transposed: 1.2 (float32) to 2 times (bfloat16) slower. Stating
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
            and of the other operand, in the order that runs fastest; the axes that come out are
            put in the order of the operand.
    """
    operands, result = forward.split("->")
    left_name, right_name = operands.split(",")

    def compute(left: Array, right: Array) -> Array:
        return _einsum(forward, left, right, _narrower(left, right))

    def back(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
        arrays = {left_name: kept[0], right_name: kept[1], result: gradient}

        def toward(name: str, spec: str) -> Array:
            operands, axes = spec.split("->")
            first, second = (arrays[operand] for operand in operands.split(","))
            product = _einsum(spec, first, second, _narrower(*kept))
            if axes != name:
                # The barrier keeps the compiler from turning the product round instead.
                product = jax.lax.optimization_barrier(product)
                product = jnp.transpose(product, [axes.index(letter) for letter in name])
            return product.astype(arrays[name].dtype)

        return toward(left_name, to_left), toward(right_name, to_right)

    product = jax.custom_vjp(compute)
    # The forward pass is `compute`, not `product`, so that gradients have a jvp, for Hessians.
    product.defvjp(lambda left, right: (compute(left, right), (left, right)), back)
    return product


# b batch, t query length, s key length, k heads, h head size
_scores_of_many = bilinear("btkh,bskh->bkts", "bkts,bskh->btkh", "bkts,btkh->bskh")
_values_of_many = bilinear("bkts,bskh->btkh", "btkh,bskh->bkts", "bkts,btkh->bskh")
# A batch of one matrix takes twice the time of the matrix on a CPU.
# Sums over t come out as [h s] two to three times as fast as they do as [s h].
_scores_of_one = bilinear("th,sh->ts", "ts,sh->th", "ts,th->hs")
_values_of_one = bilinear("ts,sh->th", "th,sh->ts", "ts,th->hs")


def score_product(
    q: Float[Array, "b t k h"], k: Float[Array, "b s k h"]
) -> Float[Array, "b k t s"]:
    """Returns q·k for each head."""
    if q.shape[0] == q.shape[2] == 1:
        return _scores_of_one(q[0, :, 0], k[0, :, 0])[None, None]
    return _scores_of_many(q, k)


def value_product(
    weights: Float[Array, "b k t s"], v: Float[Array, "b s k h"]
) -> Float[Array, "b t k h"]:
    """Returns Σ weight · v for each head."""
    if weights.shape[0] == weights.shape[1] == 1:
        return _values_of_one(weights[0, 0], v[0, :, 0])[None, :, None]
    return _values_of_many(weights, v)


@jax.custom_vjp
def affine(
    x: Float[Array, "b t d"], kernel: Float[Array, "d f"], bias: Float[Array, " f"]
) -> Float[Array, "b t f"]:
    """Returns x · kernel + bias in the type of x; parameters and their gradients are float32.

    x keeps its three axes: merged to two, the backward products are up to 3 times slower.
    """
    return _affine(x, kernel, bias)


def _affine(x, kernel, bias):
    return (_einsum("btd,df->btf", x, kernel, x.dtype) + bias[None, None, :]).astype(x.dtype)


def _affine_back(kept, gradient):
    x, kernel = kept
    to_x = _einsum("btf,df->btd", gradient, kernel, x.dtype).astype(x.dtype)
    # The smaller matrix is the one that gets transposed.
    if kernel.shape[0] <= kernel.shape[1]:
        to_kernel = _einsum("btd,btf->df", x, gradient, x.dtype)
    else:
        to_kernel = _einsum("btf,btd->fd", gradient, x, x.dtype).T
    # In float32: a bfloat16 sum is neither exact nor, on a CPU, fast.
    return to_x, to_kernel, jnp.sum(gradient.astype(jnp.float32), axis=(0, 1))


affine.defvjp(lambda x, kernel, bias: (_affine(x, kernel, bias), (x, kernel)), _affine_back)


def _einsum(spec: str, first: Array, second: Array, dtype: jnp.dtype) -> Array:
    """Multiplies in `dtype` and returns float32."""
    product = jnp.einsum(
        spec, first.astype(dtype), second.astype(dtype), preferred_element_type=jnp.float32
    )
    if dtype == jnp.float32:
        return product
    # XLA on CPUs lacks bfloat16 products with a float32 result in some layouts, and fails at run
    # time where what follows makes it choose one of those. The barrier hides what follows.
    return jax.lax.platform_dependent(
        product, cpu=jax.lax.optimization_barrier, default=lambda product: product
    )


def _narrower(left: Array, right: Array) -> jnp.dtype:
    return min(left.dtype, right.dtype, key=lambda dtype: dtype.itemsize)
