"""What a sweep made equal in all of its trials (docs/sweep.md, "Fair budgets")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# The field of a row that each kind of budget makes equal.
SPENT = {"params": "num_params", "steps": "steps", "flops": "flops", "time": "train_seconds"}


class Budget(NamedTuple):
    """A kind of `SPENT`, and how much of it the reference has (None: not noted)."""

    kind: str
    amount: float | None


def budget_of(trials: Iterable[Mapping[str, Any]]) -> Budget | None:
    """The budget of a sweep by its lines of trials.jsonl: one that has any has one for all."""
    for row in trials:
        kind, amount = row.get("budget"), row.get("budget_amount")
        if isinstance(kind, str) and kind in SPENT:
            return Budget(kind, float(amount) if isinstance(amount, int | float) else None)
    return None


def shared(budgets: Iterable[Budget | None]) -> Budget | None:
    """The budget that all have, or None."""
    found = set(budgets)
    return found.pop() if len(found) == 1 else None
