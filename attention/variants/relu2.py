"""Squared ReLU attention.

Transformer Quality in Linear Time (Hua et al. 2022), arXiv 2202.10447: relu(e / c)², c the number
of keys that the query sees, so that c divides twice.
It overflows where e / c is above 1.8e19, which `softcap` prevents.
Scores are those of `scaled_dot`. Time t·s·h, memory t·s per head.
"""

from dataclasses import dataclass

from attention.core.exact import ExactConfig, fixed
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.ops import scores

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core; `normalizer` is what the name says."""

    normalizer: str = fixed("relu2")


VARIANT = ExactVariant(Config, Score(scores.scaled_dot))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
