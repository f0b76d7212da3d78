"""What a position scheme is: the hooks that all have, and what several of them need."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from attention.errors import UserError, did_you_mean
from attention.ops.option_checks import LARGEST, is_number, is_whole
from attention.ops.relative import Relative


class PositionScheme(nnx.Module):
    """The hooks of a position scheme; a scheme overrides those for the place where it acts."""

    def vectors(self, positions: Int[Array, "#b t"]) -> Float[Array, "#b t w"] | None:
        """Returns a float32 vector for each position, for the model's input."""
        return None

    def rotate(
        self, x: Float[Array, "b t n h"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t n h"]:
        """Marks queries or keys with their positions, inside attention."""
        return x

    def relative(self) -> Relative | None:
        """Returns the terms of attention that depend on the distance of two positions."""
        return None

    def arrays(self) -> dict[str, Array]:
        """Returns the arrays of `relative`, by the names of its keywords."""
        return {}


def rows(
    scheme: str, table: Float[Array, "p w"], positions: Int[Array, "#b t"]
) -> Float[Array, "#b t w"]:
    """Returns the row of a table that belongs to each position.

    Raises:
        UserError: a position is past the table. Inside jit, where its value is not known, the row
            of such a position is NaN, so that it cannot pass for a right one.
    """
    last = table.shape[0] - 1
    # With NumPy: known positions may meet a table that is being traced.
    farthest = 0 if isinstance(positions, Tracer) else int(np.max(np.asarray(positions)))
    if farthest > last:
        raise UserError(
            f"position {farthest} is past the last one of model.position={scheme!r}, {last}: "
            f"raise data.max_length, or choose another scheme"
        )
    return jnp.take(table, positions, axis=0, mode="fill", fill_value=jnp.nan)


def table_length(scheme: str, max_length: int | None) -> int:
    """Returns max_length; raises UserError if it is None."""
    if max_length is None:
        raise UserError(f"model.position={scheme!r} needs data.max_length: the size of its table")
    return max_length


def check(holds: bool, scheme: str, field: str, value: Any, expected: str) -> None:
    """Raises UserError for a value of `model.positions.<scheme>.<field>` unless it holds."""
    if not holds:
        raise UserError(f"model.positions.{scheme}.{field}={value!r}: expected {expected}")


def check_choice(scheme: str, field: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises UserError unless the value is among the allowed ones."""
    expected = f"one of {', '.join(allowed)}{did_you_mean(value, allowed)}"
    check(value in allowed, scheme, field, value, expected)


def is_count(value: Any) -> bool:
    """Returns whether the value is a whole number from 1 to LARGEST, of what fits in memory."""
    return is_whole(value) and 1 <= value <= LARGEST


def is_positive(value: Any) -> bool:
    """Returns whether the value is a number above 0 of which float32 has the square."""
    return is_number(value) and 0 < value < 1e18
