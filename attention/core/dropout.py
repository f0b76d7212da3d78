"""Dropout whose rate is data, not code: one compiled program serves every rate."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.ops.option_checks import check_rate
from attention.ops.random_bits import hashed_bits

LEVELS = 1 << 24  # the rate is rounded to a multiple of 1 / LEVELS, exact in float32


class Rate(nnx.Variable):
    """A dropout rate: a float32 scalar that a compiled step may replace by a traced one."""


class Drop(NamedTuple):
    """One draw of dropout, for an array that is computed in blocks.

    Attributes:
        key: the random key.
        threshold: of a 24-bit number; an element whose number is below it is dropped.
    """

    key: Array
    threshold: Array

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns x with elements dropped and the others scaled up."""
        # Divides by the very share that is kept, so that the mean is right to the last bit.
        scale = LEVELS / (LEVELS - self.threshold.astype(jnp.float32))
        kept = _kept(self.key, x.shape, self.threshold)
        return jnp.where(kept, x * scale.astype(x.dtype), jnp.zeros((), x.dtype))

    def for_block(self, number: int | Int[Array, ""]) -> "Drop":
        """Returns the draw of one of the blocks, independent of the others'."""
        return self._replace(key=jax.random.fold_in(self.key, number))


class Dropout(nnx.Module):
    """Zeroes each element with probability `rate` and divides the others by 1 − rate.

    Every element has its own random bits, so batch entries and heads have independent masks. Built
    with rate 0, it has no `Rate` and costs nothing; for a rate that changes, build it with another
    value and replace that.
    """

    def __init__(self, rate: float):
        """Raises UserError unless 0 ≤ rate < 1."""
        check_rate("dropout_rate", rate)
        self.rate = Rate(jnp.float32(rate)) if rate else None

    def __call__(self, x: Float[Array, "..."], *, rngs: nnx.Rngs | None) -> Float[Array, "..."]:
        """Returns x with elements dropped; x itself if `rngs` is None."""
        drop = self.draw(rngs)
        return x if drop is None else drop(x)

    def draw(self, rngs: nnx.Rngs | None) -> Drop | None:
        """Returns what drops elements of an array, block by block; None where nothing does."""
        if self.rate is None or rngs is None:
            return None
        return Drop(rngs.dropout(), _threshold(self.rate[...]))

    def mask(self, shape: tuple[int, ...], *, rngs: nnx.Rngs | None) -> Bool[Array, "..."] | None:
        """Returns True where an element is kept; None where all are."""
        drop = self.draw(rngs)
        return None if drop is None else _kept(drop.key, shape, drop.threshold)


def _threshold(rate: Float[Array, ""]) -> Array:
    return jnp.round(rate * LEVELS).astype(jnp.uint32)


def _kept(key: Array, shape: tuple[int, ...], threshold: Array) -> Bool[Array, "..."]:
    bits = hashed_bits(key, shape) >> 8
    return bits >= threshold
