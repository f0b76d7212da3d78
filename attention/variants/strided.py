"""Attention to what is near and to every ℓ-th key beyond.

Generating Long Sequences with Sparse Transformers (Child et al. 2019), arXiv 1904.10509, section
4.3: query i sees key j iff i − j < ℓ or (i − j) mod ℓ = 0, with j ≤ i; bidirectional: the same with
|i − j|. Time and memory t·(ℓ + t/ℓ) per head, t^1.5 with ℓ near √t. Departs from the paper in that
every head sees the union of both conditions, not one of them each.
"""

from dataclasses import dataclass, field

from attention.core.exact import BY_PLACE, ExactConfig, fixed
from attention.core.exact_variant import ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.ops import scores
from attention.ops.strided import Strided, check_stride

MODES = frozenset({"bidirectional", "causal", "packed"})
POSITIONS = ALL_POSITIONS


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core without `window`, and one more.

    Attributes:
        stride: ℓ, the keys seen on a side, and the step beyond them; best near the root of the
            length.

    Raises:
        UserError: a stride that is not an int within reach.
    """

    window: int | tuple[int, int] | None = fixed(None, BY_PLACE)
    stride: int = field(default=128, metadata={"examples": (5,), "small": 3})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stride(self.stride)


def _pattern(config: Config, causal: bool) -> Strided:
    return Strided(config.stride, causal)


VARIANT = ExactVariant(Config, Score(scores.scaled_dot), pattern=_pattern, decodes=False)
attend, weights, make, visible = VARIANT.attend, VARIANT.weights, VARIANT.make, VARIANT.visible
