"""What an exact mechanism is made of, as data: two equal choices are one compiled program."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention import normalizers
from attention.ops.masks import Pattern
from attention.ops.own_array import OwnArray
from attention.ops.relative import Relative

Arrays = dict[str, Array]


def over_root_size(q: Float[Array, "b t n h"], **_: Array) -> Float[Array, "b t n h"]:
    """Returns q / √h in float32: what Shaw's tables are multiplied by, unless a score differs."""
    return q.astype(jnp.float32) * (1.0 / math.sqrt(q.shape[-1]))


@dataclass(frozen=True)
class Score:
    """How well a query fits a key.

    Attributes:
        function: (q [b t n h], k [b s k h], *, arrays by name) → scores [b n t s], float32.
        arrays: what `function` takes besides.
        toward_key: (q, *, arrays) → q', what the score multiplies a key by, where it is a product;
            position terms that are added to keys are multiplied by it.
    """

    function: Callable[..., Array]
    arrays: tuple[OwnArray, ...] = ()
    toward_key: Callable[..., Array] = over_root_size


@dataclass(frozen=True)
class HeadMix:
    """What mixes the heads' scores (before softcap, bias and mask) or weights (at the end).

    Attributes:
        scores, weights: ([b n t s], *, arrays by name) → [b n t s], or None.
        arrays: what they take besides.
    """

    scores: Callable[..., Array] | None = None
    weights: Callable[..., Array] | None = None
    arrays: tuple[OwnArray, ...] = ()


NO_MIX = HeadMix()


@dataclass(frozen=True)
class Parts:
    """The order within a row: score → head mix → softcap → + bias → mask → normalizer → head mix.

    Attributes:
        score: how well a query fits a key.
        normalizer: the name of one of `attention.normalizers`.
        normalizer_options: its options, as (name, value).
        mix: of heads.
        softcap: c of c·tanh(e/c); None = none.
        relative: the terms that depend on distance.
        pattern: who sees whom by place.
    """

    score: Score
    normalizer: str = "softmax"
    normalizer_options: tuple[tuple[str, Any], ...] = ()
    mix: HeadMix = NO_MIX
    softcap: float | None = None
    relative: Relative | None = None
    pattern: Pattern | None = None

    @property
    def own_arrays(self) -> tuple[OwnArray, ...]:
        """The arrays that the parts bring along, those of positions apart."""
        normalizer = normalizers.get(self.normalizer)
        return (*self.score.arrays, *normalizer.ARRAYS, *self.mix.arrays)

    @property
    def mixes_heads(self) -> bool:
        """Whether a head's result depends on other heads."""
        return self.mix.scores is not None or self.mix.weights is not None
