"""Cosine attention: the angle between query and key decides, not their lengths.

Query-Key Normalization for Transformers (Henry et al. 2020), arXiv 2010.04245:
e = τ · q·k / (|q||k|), τ `temperature` [n] learned for each head, no 1/√h. Time t·s·h, memory t·s
per head. τ starts at 10, which is the paper's log₂(L² − L) for sentences of L = 32 tokens.
"""

from dataclasses import dataclass

import jax

from attention.core.exact import ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.ops import scores
from attention.ops.own_array import OwnArray

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and none besides."""


TEMPERATURE = OwnArray("temperature", "n", jax.nn.initializers.constant(10.0))
VARIANT = ExactVariant(Config, Score(scores.cosine, (TEMPERATURE,), scores.times_temperature))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
