"""Scaled dot-product attention.

Attention Is All You Need (Vaswani et al. 2017), arXiv 1706.03762, equation 1:
A = softmax(QKᵀ/√h), out = AV. Time t·s·h, memory t·s per head. Departs from the paper in one
thing: a query that sees no key gets zeros, where the formula has nothing to give.
"""

import functools
from dataclasses import dataclass

from flax import nnx

from attention.core import attend as core
from attention.core.exact import ExactConfig
from attention.core.layer import AttentionLayer
from attention.core.settings import LayerSettings
from attention.ops import normalizers, scores

MODES = frozenset({"bidirectional", "causal", "cross", "decode", "packed"})
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional
PARTS = core.Parts(score=scores.scaled_dot, normalizer=normalizers.softmax)

attend = functools.partial(core.attend, PARTS)
weights = functools.partial(core.weights, PARTS)


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and none besides."""


def make(config: Config, settings: LayerSettings, *, rngs: nnx.Rngs) -> AttentionLayer:
    """Makes the layer."""
    return AttentionLayer(PARTS, config, settings, rngs=rngs)
