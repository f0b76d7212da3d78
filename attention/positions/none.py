"""No positions: attention sees a set. Also the base of all schemes, whose hooks do nothing."""

from flax import nnx
from jaxtyping import Array, Float, Int

PLACE = "nowhere"


class NoPosition(nnx.Module):
    """The hooks of a position scheme; a scheme overrides the one for the place where it acts."""

    def embed(
        self, x: Float[Array, "b t d"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t d"]:
        """Marks the model's input with its positions."""
        return x

    def rotate(
        self, x: Float[Array, "b t n h"], positions: Int[Array, "#b t"]
    ) -> Float[Array, "b t n h"]:
        """Marks queries or keys with their positions, inside attention."""
        return x


def make(width: int, *, max_length: int | None, rngs: nnx.Rngs) -> NoPosition:
    """Makes the scheme that does nothing."""
    return NoPosition()
