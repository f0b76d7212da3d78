"""Location-sensitive attention: a query also knows where the one before it attended.

Attention-Based Models for Speech Recognition (Chorowski et al. 2015), arXiv 1506.07503, equations
8 and 9: e_ij = uᵀ tanh(q_i + k_j + U f_ij), f_i = F ∗ α_{i−1}, a cross-correlation of the weights
with r filters w keys wide, zeros past both ends; softmax. u is `score_vector` [n h], F
`location_filters` [n w r], U `location_matrix` [n r h]; the bias is the projections'. Queries go
one after the other, as those of a decoder do: f is 0 at the first, and with
`location_input = cumulative` it comes from the sum of all weights before. Time
t·s·(w·r + r·h), memory t·s per head, never t·s·h. Departs from the paper, which sharpens and
windows the weights of long recordings: neither is done here. A hidden key has weight 0, so nothing
of it enters F either; a query that sees no key leaves the alignment as it is.
Cannot do: self-attention; `positions` are not looked at.
"""

from dataclasses import dataclass, field
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

from attention.core.aligned import AlignedVariant
from attention.ops import location
from attention.ops.alignment import Aligned, Course
from attention.ops.option_checks import check_choice, check_count
from attention.ops.own_array import OwnArray

MODES = frozenset({"cross", "decode", "packed"})
POSITIONS = ()  # none of those that act inside attention
INPUTS = ("previous", "cumulative")


@dataclass(frozen=True)
class Config:
    """The options.

    Attributes:
        location_input: what the filters read: "previous", the weights of the last query, or
            "cumulative", the sum of all before.
        width: keys w that a filter covers, from ⌊w/2⌋ before its own on.
        num_filters: filters r.

    Raises:
        UserError: a value that is not allowed.
    """

    location_input: Literal["previous", "cumulative"] = field(
        default="previous", metadata={"examples": ("cumulative",)}
    )
    width: int = field(default=31, metadata={"examples": (3, 4), "layer": True})
    num_filters: int = field(default=10, metadata={"layer": True})

    def __post_init__(self):
        check_choice("model.cross_attention.location_input", self.location_input, INPUTS)
        check_count("model.cross_attention.width", self.width)
        check_count("model.cross_attention.num_filters", self.num_filters)


def own_arrays(config: Config, head_dim: int) -> tuple[OwnArray, ...]:
    """Returns u, F and U, each with the variance of a linear layer of as many inputs."""

    def init(in_axis: int, out_axis: int):
        scaling = jax.nn.initializers.variance_scaling
        return scaling(1.0, "fan_in", "normal", in_axis, out_axis, batch_axis=0)

    vector = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", -1, 0)
    return (
        OwnArray("score_vector", "n h", vector),
        OwnArray("location_filters", "n w r", init(1, 2)),
        OwnArray("location_matrix", "n r h", init(1, 2)),
    )


def first(b: int, n: int, s: int) -> Array:
    """Returns the alignment before the first query: nowhere."""
    return jnp.zeros((b, n, s), jnp.float32)


def align(config: Config, q, k, course: Course, rngs, **arrays: Array) -> Aligned:
    """Returns the weights of queries that follow each other."""
    # What `attend` is given to start from may lie on hidden keys. Queries that see no key at all
    # hand on what they got.
    shown = jnp.any(course.seen, axis=2)
    kept = shown | ~jnp.any(shown, axis=-1, keepdims=True)
    course = course._replace(previous=jnp.where(kept, course.previous, 0.0))
    cumulative = config.location_input == "cumulative"
    return location.align(q, k, course, cumulative=cumulative, **arrays)


def sizes(config: Config) -> dict[str, int]:
    """Returns the width and the number of the filters."""
    return {"w": config.width, "r": config.num_filters}


VARIANT = AlignedVariant("location_sensitive", Config, own_arrays, first, align, sizes)
attend, weights, make = VARIANT.attend, VARIANT.weights, VARIANT.make
