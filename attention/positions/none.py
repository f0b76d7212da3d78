"""No positions: attention sees a set."""

from dataclasses import dataclass

from flax import nnx

from attention.positions.scheme import PositionScheme

PLACE = "nowhere"


@dataclass(frozen=True)
class Config:
    """No options."""


def make(
    config: Config,
    width: int,
    *,
    num_heads: int,
    max_length: int | None,
    causal: bool,
    rngs: nnx.Rngs,
) -> PositionScheme:
    """Makes the scheme that does nothing."""
    return PositionScheme()
