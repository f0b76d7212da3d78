"""Budgets: what all points of a sweep are to spend alike, and which key is solved to make it so.

def sweep():
    points = grid({"arg.variant": ("scaled_dot", "rnn", "cnn"), "arg.seed": range(3)})
    return budgeted(points, budget="params", like={"arg.variant": "scaled_dot"})
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from attention.configuration.overrides import EXCLUSIVE
from attention.configuration.points import Point, point
from attention.errors import UserError, did_you_mean

STEPS = "train_steps"
WIDTHS = ("model.mlp_dim", "model.decoder_mlp_dim", "model.dim")
# The keys that may be solved for each kind, the default first. A width changes no number of steps,
# nor steps a number of parameters; and the seconds of a width would have to be measured anew at
# each that is tried.
SOLVES = {
    "params": WIDTHS,
    "steps": (STEPS,),
    "flops": (STEPS, *WIDTHS),
    "time": (STEPS,),
}
UNITS = {"params": "parameters", "steps": "steps", "flops": "FLOPs", "time": "seconds"}


@dataclasses.dataclass(frozen=True)
class Budget:
    """As much of `kind` as the reference has, by solving the dotted key `solve`.

    The reference is the config with the command line's flags and, over them, the point `like`.
    """

    kind: str
    solve: str
    like: Point = dataclasses.field(default_factory=dict)

    def of_kind(self, kind: str) -> Budget:
        """The same reference with another kind of budget."""
        return self if kind == self.kind else make_budget(kind, like=self.like)

    @property
    def keys(self) -> frozenset[str]:
        """The keys that no point may set: the one solved, and what excludes it."""
        pairs = [pair for pair in EXCLUSIVE if self.solve in pair]
        return frozenset({self.solve}.union(*pairs))


@dataclasses.dataclass(frozen=True)
class Budgeted:
    """Points with a budget."""

    points: tuple[Any, ...]
    budget: Budget


def budgeted(
    points: Iterable[Point],
    *,
    budget: str = "params",
    like: Mapping[str, Any] | None = None,
    solve: str | None = None,
) -> Budgeted:
    """Returns points that are to spend alike.

    Args:
      points: as `grid` and the others make them; none of them sets the key that is solved.
      budget: "params", "steps", "flops" (of training, as result.json has it) or "time" (of
        training, measured on the machine that plans).
      like: the point whose amount all are to have; None: the config without a point.
      solve: the key to solve; None: `model.mlp_dim` for params, else `train_steps`.

    Raises:
      UserError: an unknown budget, or a key that cannot be solved for it.
    """
    if not isinstance(points, Iterable):
        raise UserError(
            f"budgeted() takes points, got {type(points).__name__}: a search tries some variants "
            "more often than others, which no budget makes fair"
        )
    return Budgeted(tuple(points), make_budget(budget, like=like, solve=solve))


def make_budget(
    kind: str, *, like: Mapping[str, Any] | None = None, solve: str | None = None
) -> Budget:
    """Returns a budget; raises UserError for an unknown kind, or a key that does not belong."""
    if kind not in SOLVES:
        hint = did_you_mean(str(kind), SOLVES)
        raise UserError(f"budget={kind!r}: expected one of {', '.join(SOLVES)}{hint}")
    solve = SOLVES[kind][0] if solve is None else solve
    if solve not in SOLVES[kind]:
        raise UserError(f"budget={kind} solves {' or '.join(SOLVES[kind])}, not {solve!r}")
    return Budget(kind, solve, point(like or {}))
