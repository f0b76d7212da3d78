"""The search for the width that spends what is wanted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from attention.sweeping.budget_solving import Found, bracket

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("spent", "wanted", "start", "expected"),
    [
        (lambda n: 7 * n, 70, 3, [10]),
        (lambda n: 7 * n, 71, 300, [10, 11]),
        (lambda n: 5 * n * n + 2, 1000, 1, [14, 15]),  # 982, 1127
        (lambda n: 100 + n, 50, 8, [1]),
        (lambda n: n // 10, 3, 1, list(range(30, 40))),  # a flat: any of it
        (lambda n: 5, 6, 1, [2**21]),
    ],
)
def test_the_neighbours_of_what_is_wanted_are_found(
    spent: Callable[[int], float], wanted: float, start: int, expected: list[int]
) -> None:
    asked: list[int] = []

    def counted(number: int) -> float:
        asked.append(number)
        return spent(number)

    found = bracket(counted, wanted, start=start)
    assert {each.value for each in found} <= set(expected)
    assert all(each == Found(each.value, spent(each.value)) for each in found)
    assert len(asked) == len(set(asked)) <= 24
