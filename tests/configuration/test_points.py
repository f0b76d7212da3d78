"""The helpers that make the points of a sweep."""

from __future__ import annotations

import pytest

from attention.configuration.points import grid, listed, point, product, zipped
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_a_grid_has_each_combination_the_last_key_fastest() -> None:
    assert grid({"a.b": (1, 2), "c": ("x", "y")}) == [
        {"a.b": 1, "c": "x"},
        {"a.b": 1, "c": "y"},
        {"a.b": 2, "c": "x"},
        {"a.b": 2, "c": "y"},
    ]


def test_arguments_are_joined_to_one_key() -> None:
    assert grid({"arg.variant": ("l2", "dot"), "arg.seed": (0,), "lr": (0.1,)}) == [
        {"arg": "variant=l2,seed=0", "lr": 0.1},
        {"arg": "variant=dot,seed=0", "lr": 0.1},
    ]
    assert point({"arg.size": "tiny", "dtype": "bfloat16"}) == {
        "arg": "size=tiny",
        "dtype": "bfloat16",
    }


def test_zipped_parts_go_side_by_side_and_must_be_as_long() -> None:
    dims, heads = listed("model.dim", (64, 128)), listed("model.num_heads", (4, 8))
    assert zipped(dims, heads) == [
        {"model.dim": 64, "model.num_heads": 4},
        {"model.dim": 128, "model.num_heads": 8},
    ]
    with pytest.raises(UserError, match="same length, got 2, 1 points"):
        zipped(dims, heads[:1])


def test_a_product_takes_any_points_and_the_last_value_stays() -> None:
    parts = ([{"arg": "seed=0,size=tiny", "a": 1}], [{"arg": "seed=1"}, {"a": 2}])
    assert product(*parts) == [
        {"arg": "seed=1,size=tiny", "a": 1},
        {"arg": "seed=0,size=tiny", "a": 2},
    ]
