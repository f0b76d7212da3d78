"""Softmax with one more in the denominator: a head may attend to nothing.

exp(e) / (1 + Σ exp(e)) ("Attention Is Off By One", Miller 2023; no paper). It is `sink` with a
sink of 0 that is not learned.
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

    normalizer: str = fixed("softmax1")


VARIANT = ExactVariant(Config, Score(scores.scaled_dot))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
