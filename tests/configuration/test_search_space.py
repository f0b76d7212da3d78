"""What a search space accepts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from attention.configuration.search_space import Choice, Halving, Real, SearchSpace, Whole
from attention.errors import UserError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choice(), "at least one value"),
        (lambda: Real(1.0, 0.5), r"Real\(low=1.0, high=0.5.*low <= high"),
        (lambda: Real(0.0, 0.5, log=True), "low above 0 where log=True"),
        (lambda: Real(0.0, float("inf")), "low <= high"),
        (lambda: Whole(1, 2.5), "whole numbers"),  # type: ignore[arg-type]
        (lambda: Whole(1, 4, step=0), "step of 1 or more"),
        (lambda: Whole(1, 8, step=2, log=True), "exclude each other"),
        (lambda: Halving(factor=1), "factor of 2 or more"),
        (lambda: SearchSpace({}), "no parameters"),
        (lambda: SearchSpace({"seed": (0, 1)}), r"seed=\(0, 1\): expected Choice"),  # type: ignore[dict-item]
        (lambda: SearchSpace({"seed": Choice(0)}, sampler="tpee"), "did you mean 'tpe'"),
        (lambda: SearchSpace({"seed": Choice(0)}, trials=0), "trials=0: expected 1 or more"),
    ],
)
def test_what_is_wrong_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_a_range_may_be_one_number() -> None:
    assert Real(1.0, 1.0).low == Whole(1, 1).high == 1
    assert Choice(None, "a").values == (None, "a")
