"""Query heads that share a key head, folded into the query axis, so that no key is copied."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def fold_groups(x: Float[Array, "b t n h"], kv_heads: int) -> Float[Array, "b gt k h"]:
    """Returns the queries of the g = n/k heads of each key head, one head after the other.

    Query heads k·g … k·g + g − 1 belong to key head k (repeat order 0, 0, 1, 1).
    """
    b, t, n, h = x.shape
    grouped = x.reshape(b, t, kv_heads, n // kv_heads, h)
    return jnp.transpose(grouped, (0, 3, 1, 2, 4)).reshape(b, -1, kv_heads, h)


def unfold_groups(x: Float[Array, "b gt k h"], num_heads: int) -> Float[Array, "b t n h"]:
    """Undoes `fold_groups`."""
    b, folded, kv_heads, h = x.shape
    groups = num_heads // kv_heads
    grouped = x.reshape(b, groups, folded // groups, kv_heads, h)
    return jnp.transpose(grouped, (0, 2, 3, 1, 4)).reshape(b, -1, num_heads, h)
