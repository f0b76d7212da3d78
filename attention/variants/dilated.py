"""Attention within a window with gaps: every d-th of the keys around each token.

Longformer (Beltagy et al. 2020), arXiv 2004.05150, section 3.1: query i sees key j iff j − i is one
of −d·left, …, −d, 0, d, …, d·right; causal sets right = 0. Time and memory t·(left + right) per
head: tokens of one remainder modulo d see each other only, and are put side by side. Decoding keeps
d·left tokens. Departs from the paper in that all heads have one dilation.
"""

from dataclasses import dataclass, field

from attention.core.exact import ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.ops import scores
from attention.ops.window import Window, make_window

MODES = ALL_MODES - {"cross"}  # two sequences have no distance
POSITIONS = ALL_POSITIONS


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, of which `window` may not be None, and one more.

    Attributes:
        window: keys seen on each side, w or (left, right), the query itself not counted.
        dilation: d, the step from one to the next.

    Raises:
        UserError: a window or dilation that is not allowed.
    """

    window: int | tuple[int, int] = field(default=64, metadata={"examples": (1,), "small": (2, 1)})
    dilation: int = field(default=2, metadata={"examples": (1, 3)})

    def __post_init__(self) -> None:
        super().__post_init__()
        make_window(self.window, causal=False, dilation=self.dilation)


def _pattern(config: Config, causal: bool) -> Window:
    return make_window(config.window, causal=causal, dilation=config.dilation)


VARIANT = ExactVariant(Config, Score(scores.scaled_dot), pattern=_pattern)
attend, weights, make, visible = VARIANT.attend, VARIANT.weights, VARIANT.make, VARIANT.visible
