"""Sigmoid attention: each key is weighed by itself.

Theory, Analysis, and Best Practices for Sigmoid Self-Attention (Ramapuram et al. 2024), arXiv
2409.04431: σ(e − log c), c the number of keys that the query sees.
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

    normalizer: str = fixed("sigmoid")


VARIANT = ExactVariant(Config, Score(scores.scaled_dot))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
