"""Attention within a window around each token.

Longformer (Beltagy et al. 2020), arXiv 2004.05150, section 3.1: query i sees key j iff
−left ≤ j − i ≤ right; causal sets right = 0. Time and memory t·(left + right) per head: blocks of
queries read the blocks of keys that they may need, and nothing else. Decoding keeps `left` tokens.
"""

from dataclasses import dataclass, field

from attention.core.exact import ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.ops import scores
from attention.ops.window import make_window

MODES = ALL_MODES - {"cross"}  # two sequences have no distance
POSITIONS = ALL_POSITIONS


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, of which `window` has a default here.

    Attributes:
        window: keys seen on each side, w or (left, right), the query itself not counted.
    """

    window: int | tuple[int, int] = field(default=64, metadata={"examples": (2,), "small": (3, 1)})

    def __post_init__(self) -> None:
        super().__post_init__()
        make_window(self.window, causal=False)


VARIANT = ExactVariant(Config, Score(scores.scaled_dot))
attend, weights, make, visible = VARIANT.attend, VARIANT.weights, VARIANT.make, VARIANT.visible
