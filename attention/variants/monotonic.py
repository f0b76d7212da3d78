"""Monotonic attention: each query goes on along the keys from where the one before it stopped.

Online and Linear-Time Attention by Enforcing Monotonic Alignments (Raffel et al. 2017), arXiv
1704.00784. Energy e = g · uᵀ tanh(q + k) / ‖u‖ + r (equation 16; u `score_vector` [n h], g
`score_gain` [n], r `score_offset` [n]); a path stops at a key with probability p = σ(e), else goes
on to the next, and the weight of a key is how likely it is to be stopped at (equation 9):
α_ij = p_ij Σ_{l≤j} α_{i−1,l} Π_{l≤m<j} (1 − p_im). It begins at key 0; a path that has passed the
last key attends to nothing from then on, so rows sum to at most 1. `test_mode = hard` without
`rngs`, as in evaluation: a path stops where p > ½ (algorithm 1), and training with `noise` before
the sigmoid teaches p to be near 0 or 1. Time t·s·h, memory t·s·log s per head. Departs from the
paper: the recursion is summed, not divided by cumulative products. Hidden keys are passed; a query
that sees no key leaves the alignment as it is.
Cannot do: self-attention; `positions` are not looked at.
"""

from dataclasses import dataclass, field
from typing import Literal

import jax
from jaxtyping import Array

from attention.core.aligned import AlignedVariant
from attention.ops import monotonic
from attention.ops.alignment import Aligned, Course
from attention.ops.option_checks import check_choice, check_number
from attention.ops.own_array import OwnArray

MODES = frozenset({"cross", "decode", "packed"})
POSITIONS = ()  # none of those that act inside attention
TEST_MODES = ("soft", "hard")


@dataclass(frozen=True)
class Config:
    """The options.

    Attributes:
        test_mode: what a call without `rngs` gives: "soft", the expected weights, as in training,
            or "hard", one key or none a query.
        noise: standard deviation of the normal noise on the energies in training; the paper has 1.
        initial_offset: what r starts as; the longer the context, the lower it should be, as
            paths else stop at its first keys.

    Raises:
        UserError: a value that is not allowed.
    """

    test_mode: Literal["soft", "hard"] = "soft"
    noise: float = field(default=0.0, metadata={"layer": True})
    initial_offset: float = field(default=-1.0, metadata={"layer": True})

    def __post_init__(self):
        check_choice("model.cross_attention.test_mode", self.test_mode, TEST_MODES)
        check_number("model.cross_attention.noise", self.noise, least=0.0)
        check_number("model.cross_attention.initial_offset", self.initial_offset)


def own_arrays(config: Config, head_dim: int) -> tuple[OwnArray, ...]:
    """Returns u, its gain g = 1/√h at first, and r."""
    constant = jax.nn.initializers.constant
    vector = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", -1, 0)
    return (
        OwnArray("score_vector", "n h", vector),
        OwnArray("score_gain", "n", constant(head_dim**-0.5)),
        OwnArray("score_offset", "n", constant(config.initial_offset)),
    )


def align(config: Config, q, k, course: Course, rngs, **arrays: Array) -> Aligned:
    """Returns the weights of queries that follow each other."""
    energy = monotonic.energies(q, k, **arrays)
    if rngs is not None and config.noise:
        energy = energy + config.noise * jax.random.normal(rngs.dropout(), energy.shape)
    hard = config.test_mode == "hard" and rngs is None
    return monotonic.align(energy, course, hard=hard)


VARIANT = AlignedVariant("monotonic", Config, own_arrays, monotonic.first, align)
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
