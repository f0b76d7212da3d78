"""Talking-heads attention: heads mix their scores, and then their weights.

Talking-Heads Attention (Shazeer et al. 2020), arXiv 2003.02436: with e the scores of `scaled_dot`,
e′[n] = Σ_m pre_mix[n, m] · e[m], A = softmax(e′), A′[n] = Σ_m post_mix[n, m] · A[m], out = A′V.
Both mixes are [n n], a row for each head that comes out; they start as the identity, which is plain
multi-head attention. Time t·s·(h + n), memory t·s per head.

The first mix comes before softcap, position bias and mask, so a mask that differs between heads
hides pairs of a mixed head. Through the second mix, a head then reads what others see; one that
sees nothing itself gives zeros. Keeps the paper's heads: as many before, within and after.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention.core.exact import ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.parts import HeadMix, Score
from attention.ops import scores
from attention.ops.head_mix import mixed
from attention.ops.own_array import OwnArray

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and none besides."""


def before(
    scores: Float[Array, "b n t s"], *, pre_mix: Float[Array, "n n"], post_mix: Array
) -> Float[Array, "b n t s"]:
    """Mixes the scores."""
    return mixed(scores, pre_mix)


def after(
    weights: Float[Array, "b n t s"], *, pre_mix: Array, post_mix: Float[Array, "n n"]
) -> Float[Array, "b n t s"]:
    """Mixes the weights."""
    return mixed(weights, post_mix)


def identity(key: Array, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Returns the mix that leaves heads as they are."""
    return jnp.eye(*shape, dtype=dtype)


MIXES = (OwnArray("pre_mix", "n n", identity), OwnArray("post_mix", "n n", identity))
VARIANT = ExactVariant(Config, Score(scores.scaled_dot), HeadMix(before, after, MIXES))
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
