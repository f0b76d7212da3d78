"""Sparsemax: the scores projected on the simplex (Martins and Astudillo 2016, arXiv 1602.02068).

p_j = max(e_j − τ, 0), with the τ that makes them sum to 1. It is `entmax` at α = 2, whose file
says how τ is found, and what it costs: the paper sorts, here Newton's method reads the scores a few
times.
"""

from jaxtyping import Array, Bool, Float

from attention.normalizers import entmax
from attention.ops.own_array import OwnArray

ARRAYS: tuple[OwnArray, ...] = ()
OPTIONS: tuple[str, ...] = ()


def normalize(
    scores: Float[Array, "b n t s"], visible: Bool[Array, "#b #n #t #s"] | None
) -> Float[Array, "b n t s"]:
    """Returns the projection over the visible keys; zeros where a query sees none.

    Gradients are finite everywhere, and zero for what is not visible.
    """
    return entmax.normalize(scores, visible, alpha=2.0)
