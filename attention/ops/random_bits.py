"""Random bits for dropout: a hash of each element's index, far cheaper than a generator on a CPU.

The bits depend on the key and the index only, so they are the same however the array is split over
devices. They are good enough to drop units by, not for cryptography or for statistics.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32


def hashed_bits(key: Array, shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """Returns 32 random bits for each element of an array of this shape."""
    seeds = jax.random.bits(key, (2,), jnp.uint32)
    index = jnp.zeros(shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(len(shape))):
        count = jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
        index = index + count * jnp.uint32(stride % (1 << 32))
        stride *= shape[axis]
    # Two rounds, keyed each: with one, two keys would give the same bits in another order.
    return _mix(_mix(index ^ seeds[0]) ^ seeds[1])


def _mix(x: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A bijection of 32-bit words in which each input bit flips half of the output bits.

    The multipliers are those of Wellons's "Prospecting for Hash Functions" (lowbias32, 2018).
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
