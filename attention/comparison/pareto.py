"""The Pareto front: rows that no other beats in score and cost."""

from __future__ import annotations

from collections.abc import Sequence

EQUAL = 0.02  # costs that differ by no more are one: what the notes about budgets call equal, too


def are_equal(costs: Sequence[float]) -> bool:
    """Whether no two costs of several differ by more than 2 %."""
    return len(costs) > 1 and max(costs) <= min(costs) * (1.0 + EQUAL)


def front(costs: Sequence[float], gains: Sequence[float]) -> list[int]:
    """Returns the indices of the points that no other beats, from cheap to dear.

    A point is beaten by one that is better and costs at most 2 % more (a few parameters or seconds
    more are no price), and by one as good that costs less.

    Args:
      costs: of each point, above 0.
      gains: of each point, the higher the better.
    """

    def beats(other: int, one: int) -> bool:
        if gains[other] > gains[one]:
            return costs[other] <= costs[one] * (1.0 + EQUAL)
        return gains[other] == gains[one] and costs[other] < costs[one]

    points = sorted(range(len(costs)), key=lambda i: (costs[i], gains[i]))
    return [one for one in points if not any(beats(other, one) for other in points)]
