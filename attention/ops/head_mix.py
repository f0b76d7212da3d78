"""What lets the heads of one layer act on each other. Always float32."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention.errors import UserError


def mixed(heads: Float[Array, "b n t s"], mix: Float[Array, "n n"]) -> Float[Array, "b n t s"]:
    """Returns out[n] = Σ_m mix[n, m] · heads[m]: a row of `mix` for each head that comes out."""
    return jnp.einsum(
        "nm,bmts->bnts",
        mix.astype(jnp.float32),
        heads.astype(jnp.float32),
        # Accelerators round the operands of float32 products, and what comes in are scores.
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )


def pair_difference(
    weights: Float[Array, "b n t s"], lam: Float[Array, " p"]
) -> Float[Array, "b n t s"]:
    """Returns A₂ᵢ − λᵢ · A₂ᵢ₊₁ for both heads of each pair i.

    Raises:
        UserError: an odd number of heads.
    """
    b, n, t, s = weights.shape
    check_pairs(n)
    pairs = weights.reshape(b, n // 2, 2, t, s)
    by = lam.astype(jnp.float32)[None, :, None, None]
    return jnp.repeat(pairs[:, :, 0] - by * pairs[:, :, 1], 2, axis=1)


def check_pairs(num_heads: int) -> None:
    """Raises UserError for an odd number of heads."""
    if num_heads % 2:
        raise UserError(
            f"num_heads={num_heads} must be even, as heads 2i and 2i + 1 are a pair: "
            f"change model.num_heads"
        )
