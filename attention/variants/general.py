"""General attention: a product of query and key through a learned matrix.

Effective Approaches to Attention-based Neural Machine Translation (Luong et al. 2015), arXiv
1508.04025, equation 8 ("general"): e = qᵀWk, a matrix W `score_matrix` [n h h] for each head,
without a scale. Time t·s·h + t·h², memory t·s per head. W starts as identity / √h, which is
`scaled_dot`.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array

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


def scaled_identity(key: Array, shape: tuple[int, int, int], dtype: jnp.dtype) -> Array:
    """Returns identity / √h for each head."""
    n, h, _ = shape
    return jnp.broadcast_to(jnp.eye(h, dtype=dtype) / jnp.sqrt(jnp.asarray(h, dtype)), (n, h, h))


SCORE_MATRIX = OwnArray("score_matrix", "n h h", scaled_identity)
VARIANT = ExactVariant(Config, Score(scores.general, (SCORE_MATRIX,), scores.times_matrix))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
