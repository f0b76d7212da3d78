"""Additive attention: a small network scores each pair.

Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau et al. 2014), arXiv
1409.0473, appendix A.1.2: e = uᵀ tanh(q + k), u `score_vector` [n h] for each head; the matrices
that make q and k are the layer's projections. Time t·s·h (a tanh each, several times dearer than a
product), memory t·s per head, never t·s·h. No 1/√h: tanh bounds each term.
"""

from dataclasses import dataclass

import jax

from attention.core.exact import ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.parts import Score
from attention.ops import additive
from attention.ops.own_array import OwnArray

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and none besides."""


# As for the vector that a linear layer of h inputs and one output would have.
SCORE_VECTOR = OwnArray(
    "score_vector", "n h", jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", -1, 0)
)
VARIANT = ExactVariant(Config, Score(additive.score, (SCORE_VECTOR,)))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
