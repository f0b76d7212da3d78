"""Search spaces: what a config file's `sweep()` returns to have its trials chosen one by one.

def sweep():
    return SearchSpace(
        {
            "optimizer.learning_rate": Real(1e-4, 1e-2, log=True),
            "model.num_layers": Whole(1, 4),
            "arg.variant": Choice("scaled_dot", "additive"),
        },
        trials=40,
        pruning=Halving(),
    )
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from attention.errors import UserError, did_you_mean

SAMPLERS = ("tpe", "random")
Value = bool | int | float | str | None


@dataclasses.dataclass(frozen=True, init=False)
class Choice:
    """One of some values, which have no order."""

    values: tuple[Value, ...]

    def __init__(self, *values: Value) -> None:
        if not values:
            raise UserError("Choice() needs at least one value")
        object.__setattr__(self, "values", values)


@dataclasses.dataclass(frozen=True)
class Real:
    """A number from `low` to `high`, both included; `log`: drawn evenly in its logarithm."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self)


@dataclasses.dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`, both included, in steps of `step`."""

    low: int
    high: int
    step: int = 1
    log: bool = False

    def __post_init__(self) -> None:
        if not all(isinstance(x, int) for x in (self.low, self.high, self.step)) or self.step < 1:
            raise UserError(f"{self}: expected whole numbers, and step of 1 or more")
        if self.log and self.step != 1:
            raise UserError(f"{self}: step and log exclude each other")
        _check_range(self)


def _check_range(range_: Real | Whole) -> None:
    lowest = math.ulp(0.0) if range_.log else -math.inf
    if not (lowest <= range_.low <= range_.high < math.inf):
        raise UserError(f"{range_}: expected low <= high, and low above 0 where log=True")


@dataclasses.dataclass(frozen=True)
class Halving:
    """Pruning by successive halving (Li et al. 2018, ASHA: arXiv 1810.05934).

    After `first`, `first`·`factor`, `first`·`factor`² … evaluations, a trial goes on only if it is
    among the best 1/`factor` of those that have come so far.
    """

    first: int = 1
    factor: int = 3

    def __post_init__(self) -> None:
        if self.first < 1 or self.factor < 2:
            raise UserError(f"{self}: expected first of 1 or more and factor of 2 or more")


@dataclasses.dataclass(frozen=True)
class SearchSpace:
    """What is searched, by dotted key or `arg.NAME`, and how.

    The first metric of the task on dev is to become as high as possible.
    """

    parameters: Mapping[str, Choice | Real | Whole]
    trials: int = 20  # --trials overrides it
    sampler: str = "tpe"  # tree-structured Parzen estimator (Bergstra et al. 2011), or random
    startup: int = 10  # trials drawn at random before the estimator has seen enough
    pruning: Halving | None = None
    seed: int = 0  # of the sampler

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            hint = did_you_mean(self.sampler, SAMPLERS)
            raise UserError(f"SearchSpace sampler={self.sampler!r}: expected tpe or random{hint}")
        if not self.parameters:
            raise UserError("SearchSpace has no parameters")
        for key, range_ in self.parameters.items():
            if not isinstance(range_, Choice | Real | Whole):
                raise UserError(
                    f"SearchSpace parameter {key}={range_!r}: expected Choice, Real or Whole"
                )
        if self.trials < 1:
            raise UserError(f"SearchSpace trials={self.trials}: expected 1 or more")
