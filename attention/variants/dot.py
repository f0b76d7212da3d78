"""Dot-product attention, without a scale.

Effective Approaches to Attention-based Neural Machine Translation (Luong et al. 2015), arXiv
1508.04025, equation 8 ("dot"): A = softmax(QKᵀ), out = AV. Time t·s·h, memory t·s per head; scores
grow with √h, which `scaled_dot` takes off.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

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


def as_it_is(q: Float[Array, "b t n h"]) -> Float[Array, "b t n h"]:
    """Returns q in float32: what the score multiplies a key by."""
    return q.astype(jnp.float32)


VARIANT = ExactVariant(Config, Score(scores.dot, toward_key=as_it_is))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
