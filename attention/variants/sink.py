"""Softmax with a learned sink: each head has an extra key without a value.

gpt-oss model card (2025), arXiv 2508.10925: exp(e) / (exp(sink) + Σ exp(e)), `sink` [n] learned
for each head; −∞ would be softmax, 0 is `softmax1`.
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

    normalizer: str = fixed("sink")


VARIANT = ExactVariant(Config, Score(scores.scaled_dot))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
