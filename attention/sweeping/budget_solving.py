"""Solves the budget of a sweep: the width or the steps with which a point spends what is wanted."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attention import configuration
from attention.configuration.budget import STEPS, UNITS, Budget
from attention.configuration.fields import leaves
from attention.configuration.points import Point
from attention.errors import UserError
from attention.sweeping.plan import Sweep, load_point

_MOST_APART = 1.02  # of any two amounts, so that each may be off by its root
_WIDEST = 1 << 20


class Amount(NamedTuple):
    """What the reference of a budget spends; `shape` names its program."""

    shape: str
    amount: float


class Solved(NamedTuple):
    """The value of the solved key for all points of one shape, and what they spend with it.

    `refused` says why it is not near enough; empty where it is.
    """

    shape: str
    value: int
    amount: float
    refused: str = ""


class Found(NamedTuple):
    """A value of the solved key, and what is spent with it."""

    value: int
    amount: float


class Solver:
    """Solves points one by one; those that differ only in numbers of the step, such as the seed,
    have one shape and are solved once.

    Args:
      sweep: with a budget.
      costs: makes a `training.costs.Costs`, once one is needed.
      reference, solved: what is known from before.
    """

    def __init__(
        self,
        sweep: Sweep,
        costs: Callable[[], Any],
        *,
        reference: Amount | None = None,
        solved: Mapping[str, Solved],
    ) -> None:
        assert sweep.budget is not None
        self._sweep = sweep
        self._budget: Budget = sweep.budget
        self._costs = costs
        self._solved = dict(solved)
        self._step_seconds: dict[str, float] = {}
        self.reference = self._refer(reference)

    def _refer(self, before: Amount | None) -> Amount:
        config = load_point(self._sweep, self._budget.like)
        shape = _hash(configuration.program_of(config), *_length(config))
        if before is None:
            return Amount(shape, self._spent(config))
        if before.shape != shape:
            raise UserError(
                f"{self._sweep.spec} has changed since its budget was written down: name another "
                "--workdir"
            )
        return before

    def _spent(self, config: Any) -> float:
        """What a config spends, with the length it has."""
        if self._budget.kind == "params":
            return self._costs().parameters(config)
        steps = config.train_steps or self._costs().total_steps(config)
        if self._budget.kind == "steps":
            return steps
        if self._budget.kind == "time":
            return steps * self._seconds(config)
        return self._costs().flops(config, self._batches(config, steps))

    def _batches(self, config: Any, steps: int) -> Counter[Any]:
        """How often each shape of batch comes."""
        return Counter(itertools.islice(self._costs().shapes(config), steps))

    def _seconds(self, config: Any) -> float:
        program = configuration.program_of(config)
        if program not in self._step_seconds:
            self._step_seconds[program] = self._costs().seconds_per_step(config)
        return self._step_seconds[program]

    def solve(self, point: Point) -> Solved:
        """Raises UserError for a point whose config is refused."""
        wanted = self.reference.amount
        if self._budget.kind == "steps":
            return Solved("all", round(wanted), wanted)
        config = load_point(self._sweep, point)
        shape = self._shape(config)
        if shape not in self._solved:
            near = self._neighbours(point, config)
            best = min(near, key=lambda found: _apart(found.amount, wanted))
            too_far = _apart(best.amount, wanted) ** 2 > _MOST_APART
            refused = self._too_far(near) if too_far else ""
            self._solved[shape] = Solved(shape, best.value, best.amount, refused)
        return self._solved[shape]

    def _shape(self, config: Any) -> str:
        program = configuration.program_of(config)
        if self._budget.kind == "flops" and self._budget.solve != STEPS:
            return _hash(program, *_length(config))
        return _hash(program)

    def _neighbours(self, point: Point, config: Any) -> list[Found]:
        """The values on both sides of what is wanted, or one where it is hit or out of reach."""
        if self._budget.solve == STEPS:
            return self._neighbouring_steps(point)
        unit, start = _unit_and_start(config, self._budget.solve)
        batches = Counter()
        if self._budget.kind == "flops":
            batches = self._batches(config, self._costs().total_steps(config))

        def spent(units: int) -> float:
            wide = load_point(self._sweep, {**point, self._budget.solve: units * unit})
            if self._budget.kind == "params":
                return self._costs().parameters(wide)
            return self._costs().flops(wide, batches)

        near = bracket(spent, self.reference.amount, start=max(1, start // unit))
        return [Found(found.value * unit, found.amount) for found in near]

    def _neighbouring_steps(self, point: Point) -> list[Found]:
        wanted = self.reference.amount
        config = load_point(self._sweep, {**point, STEPS: 1})
        if self._budget.kind == "time":
            seconds = self._seconds(config)
            steps = max(1, int(wanted / seconds))
            return [Found(number, number * seconds) for number in (steps, steps + 1)]
        before = after = Found(0, 0)
        for shape in self._costs().shapes(config):
            flops = self._costs().flops(config, {shape: 1})
            before, after = after, Found(after.value + 1, after.amount + flops)
            if after.amount >= wanted:
                break
        return [found for found in (before, after) if found.value]

    def _too_far(self, near: list[Found]) -> str:
        wanted = f"{self.reference.amount:,.6g} {UNITS[self._budget.kind]}"
        gives = " and ".join(
            f"{self._budget.solve}={found.value} gives {found.amount:,.6g}" for found in near
        )
        return (
            f"cannot have the budget of {wanted} within 1 %: {gives}; solve "
            f"another key than {self._budget.solve}, or choose another reference (budgeted(…, "
            "like=…, solve=…))"
        )


def bracket(spent: Callable[[int], float], wanted: float, *, start: int) -> list[Found]:
    """Returns the neighbouring numbers, 1 or more, that spend less and more than what is wanted.

    One alone where it is exact, or out of reach: 1 is too much already, a million not enough.

    Args:
      spent: does not fall.
      wanted: the amount.
      start: where to look first.
    """
    low = high = Found(start, spent(start))
    while high.amount < wanted:
        if high.value > _WIDEST:
            return [high]
        low, high = high, Found(2 * high.value, spent(2 * high.value))
    while low.amount > wanted:
        if low.value == 1:
            return [low]
        low, high = Found(low.value // 2, spent(low.value // 2)), low
    straight = True
    while high.value - low.value > 1 and low.amount < wanted < high.amount:
        share = (wanted - low.amount) / (high.amount - low.amount) if straight else 0.5
        middle = low.value + round(share * (high.value - low.value))
        middle = min(max(middle, low.value + 1), high.value - 1)
        found = Found(middle, spent(middle))
        low, high = (found, high) if found.amount <= wanted else (low, found)
        straight = not straight  # the straight line alone may creep up from one side
    exact = [found for found in (low, high) if found.amount == wanted]
    return exact[:1] or [low, high]


def _unit_and_start(config: Any, key: str) -> tuple[int, int]:
    """What a width is a multiple of, and what it is now."""
    values = dict(leaves(config))
    if not isinstance(values.get(key), int):
        raise UserError(f"the budget solves {key}, which this config does not have")
    heads = values.get("model.num_heads", 1)
    if key != "model.dim":
        return 1, values[key]
    # Rotary positions turn pairs of numbers of a head.
    return (heads if values[key] // heads % 2 else 2 * heads), values[key]


def _length(config: Any) -> tuple[Any, Any]:
    return config.train_steps, config.train_epochs


def _apart(amount: float, wanted: float) -> float:
    """How many times one is the other, 1 or more."""
    return max(amount / wanted, wanted / amount) if amount and wanted else float("inf")


def _hash(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
