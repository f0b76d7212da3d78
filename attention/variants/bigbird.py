"""Attention between blocks: to the neighbours, to both ends, and to some blocks at random.

Big Bird (Zaheer et al. 2020), arXiv 2007.14062, section 2 and appendix D, internal (ITC): with
blocks counted from the start of the segment, block I sees block J iff |I − J| ≤ 1, I or J is the
first or the last block, or J is one of r others that I draws once and for all (see
`ops.bigbird.drawn_blocks`); all heads of a layer share the draw. Time and memory t·(5 + r)·block
per head, and for the ends of long segments t keys a query.

Departs from the paper in that the last block may be shorter. A segment of packed rows has to start
at a multiple of the block (`pack_multiple`); given ids it is refused if it does not, or, inside
jit, where they are not known, gives NaN. The implementation "plain" does without. NaN too is what
the ends give of more long segments than `max_global_tokens` has room for. Padding is told by
segment_ids: keys that only a mask hides keep their blocks, the last one among them.
"""

import dataclasses
from dataclasses import dataclass, field

from flax import nnx

from attention.core.exact import BY_PLACE, SECTION, ExactConfig, fixed
from attention.core.exact_variant import ALL_POSITIONS, ExactVariant
from attention.core.layer import AttentionLayer
from attention.core.parts import Score
from attention.core.settings import LayerSettings
from attention.ops import scores
from attention.ops.bigbird import BigBird
from attention.ops.option_checks import check_count, refuse

MODES = frozenset({"bidirectional", "packed"})
POSITIONS = ALL_POSITIONS
MASKED_IS_ABSENT = False
MOST_RANDOM = 2**8  # each is written out


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core without `window`, and more.

    Attributes:
        pattern_block: tokens a block of the pattern (`block_size` is how the work is cut).
        num_random: r, blocks that each block draws.
        seed: of the draw.
        layer: whose draw it is; None = that of the layer's own place in its stack.
        max_global_tokens: for how many tokens of the ends of long segments a row has room; None =
            all up to 512 tokens, beyond that an eighth of the row, 512 at least.

    Raises:
        UserError: one of these that is not an int, too small or too large, or a seed of no draw.
    """

    window: int | tuple[int, int] | None = fixed(None, BY_PLACE)
    pattern_block: int = field(default=64, metadata={"examples": (2,), "small": 1})
    num_random: int = field(default=3, metadata={"examples": (0, 3), "small": 1})
    seed: int = field(default=0, metadata={"examples": (5,)})
    layer: int | None = field(default=None, metadata={"examples": (7,)})
    max_global_tokens: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(f"{SECTION}.pattern_block", self.pattern_block)
        check_count(f"{SECTION}.num_random", self.num_random, least=0, most=MOST_RANDOM)
        check_count(f"{SECTION}.seed", self.seed, least=0, most=2**32 - 1)
        check_count(f"{SECTION}.layer", self.layer, least=0, or_none=True)
        check_count(f"{SECTION}.max_global_tokens", self.max_global_tokens, or_none=True)
        if self.seed and not self.num_random:
            refuse(f"{SECTION}.seed", self.seed, "0: with num_random=0 nothing is drawn")

    @property
    def pack_multiple(self) -> int:
        """Where segments of packed rows may start: at multiples of this."""
        return self.pattern_block


PACK_MULTIPLE = Config().pack_multiple


def _pattern(config: Config, causal: bool) -> BigBird:
    layer = 0 if config.layer is None else config.layer
    size, num_random = config.pattern_block, config.num_random
    return BigBird(size, num_random, config.seed, layer, config.max_global_tokens)


VARIANT = ExactVariant(Config, Score(scores.scaled_dot), pattern=_pattern, decodes=False)
attend, weights, visible = VARIANT.attend, VARIANT.weights, VARIANT.visible


def make(config: Config, settings: LayerSettings, *, rngs: nnx.Rngs) -> AttentionLayer:
    """Makes the layer, with a draw of its own unless the config says whose."""
    if config.layer is None:
        config = dataclasses.replace(config, layer=settings.layer_index)
    return VARIANT.make(config, settings, rngs=rngs)
