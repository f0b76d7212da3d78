"""Scaled dot-product attention.

Attention Is All You Need (Vaswani et al. 2017), arXiv 1706.03762, equation 1:
A = softmax(QKᵀ/√h), out = AV. Time t·s·h, memory t·s per head. Departs from the paper in one
thing: a query that sees no key gets zeros, where the formula has nothing to give.
"""

from dataclasses import dataclass

from attention.core.exact import ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.ops import scores

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and none besides."""


VARIANT = ExactVariant(Config, Score(scores.scaled_dot))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
