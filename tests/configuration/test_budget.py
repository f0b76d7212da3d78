"""What a config file says about the budget of its sweep."""

from __future__ import annotations

import pytest

from attention.configuration.budget import budgeted, make_budget
from attention.configuration.points import grid
from attention.configuration.search_space import SearchSpace, Whole
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_points_get_a_budget_whose_reference_is_a_point() -> None:
    made = budgeted(grid({"arg.variant": ("l2", "rnn")}), like={"arg.variant": "l2", "seed": 3})
    assert made.points == ({"arg": "variant=l2"}, {"arg": "variant=rnn"})
    assert (made.budget.kind, made.budget.solve) == ("params", "model.mlp_dim")
    assert made.budget.like == {"arg": "variant=l2", "seed": 3}


@pytest.mark.parametrize(
    ("kind", "solve"),
    [
        ("params", "model.mlp_dim"),
        ("steps", "train_steps"),
        ("flops", "train_steps"),
        ("time", "train_steps"),
    ],
)
def test_each_kind_has_a_key_of_its_own(kind: str, solve: str) -> None:
    assert make_budget(kind).solve == solve


def test_another_kind_keeps_the_reference_and_not_the_key() -> None:
    budget = make_budget("params", like={"seed": 1}, solve="model.dim")
    assert budget.of_kind("params") == budget
    assert budget.of_kind("flops") == make_budget("flops", like={"seed": 1})


def test_the_key_that_excludes_the_solved_one_belongs_to_it() -> None:
    assert make_budget("flops").keys == {"train_steps", "train_epochs"}
    assert make_budget("params").keys == {"model.mlp_dim"}


@pytest.mark.parametrize(
    ("kind", "solve", "message"),
    [
        ("parms", None, "budget='parms': expected one of params, .*did you mean 'params'"),
        ("params", "train_steps", "budget=params solves model.mlp_dim or .*, not 'train_steps'"),
        ("time", "model.mlp_dim", "budget=time solves train_steps, not 'model.mlp_dim'"),
        ("steps", "model.dim", "budget=steps solves train_steps"),
    ],
)
def test_what_cannot_be_solved_is_refused(kind: str, solve: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        budgeted([{}], budget=kind, solve=solve)


def test_a_search_space_has_no_budget() -> None:
    with pytest.raises(UserError, match=r"budgeted\(\) takes points, got SearchSpace"):
        budgeted(SearchSpace({"a": Whole(1, 2)}))  # type: ignore[arg-type]
