"""Attention within blocks, and to the last keys of every block.

Generating Long Sequences with Sparse Transformers (Child et al. 2019), arXiv 1904.10509, section
4.3: query i sees key j iff ⌊j/ℓ⌋ = ⌊i/ℓ⌋ or j mod ℓ ≥ ℓ − c, with j ≤ i; bidirectional: the same
without j ≤ i. Places are counted from the start of the segment. Time and memory t·(ℓ + t·c/ℓ) per
head, t^1.5 with ℓ near √t. Departs from the paper in that every head sees the union of both
conditions, with the same c keys, not one of them each.
"""

from dataclasses import dataclass, field

from attention.core.exact import BY_PLACE, ExactConfig, fixed
from attention.core.exact_variant import ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.errors import UserError
from attention.ops import scores
from attention.ops.option_checks import is_whole
from attention.ops.strided import Fixed, check_stride

MODES = frozenset({"bidirectional", "causal", "packed"})
POSITIONS = ALL_POSITIONS


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core without `window`, and two more.

    Attributes:
        stride: ℓ, tokens a block.
        summary: c, how many at the end of a block are seen from everywhere; the paper has 8 to 32
            for a stride of 128 to 256.

    Raises:
        UserError: a stride below 1, or a summary that is not within 1 and stride.
    """

    window: int | tuple[int, int] | None = fixed(None, BY_PLACE)
    stride: int = field(default=128, metadata={"examples": (5,), "small": 3})
    summary: int = field(default=8, metadata={"examples": (2, 3), "small": 1})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stride(self.stride)
        if not is_whole(self.summary) or not 1 <= self.summary <= self.stride:
            raise UserError(
                f"model.attention.summary={self.summary!r}: expected an int within 1 and the "
                f"{self.stride} tokens of a block; change it or model.attention.stride"
            )


def _pattern(config: Config, causal: bool) -> Fixed:
    return Fixed(config.stride, config.summary, causal)


VARIANT = ExactVariant(Config, Score(scores.scaled_dot), pattern=_pattern, decodes=False)
attend, weights, make, visible = VARIANT.attend, VARIANT.weights, VARIANT.make, VARIANT.visible
