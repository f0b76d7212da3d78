"""Runs of a sweep that made something equal: what that was, and whether it came out equal."""

from __future__ import annotations

import json

import pytest
from support.fake_runs import write_run, write_sweep

from attention.comparison import report
from attention.comparison.comparing import Options, compare
from attention.comparison.tables import markdown

pytestmark = pytest.mark.fast


def compared(folder, kind, amount, **results):
    """A sweep with a budget, one trial a variant, which has in result.json what is given."""
    row = {"budget": kind, "budget_amount": amount}
    trials = [{"variant": name, "result": each, "row": row} for name, each in results.items()]
    write_sweep(folder, trials)
    return compare([str(folder)], Options())


def notes(found, what):
    return [line for line in found.cautions if line.startswith(f"{what} differ")]


@pytest.mark.parametrize(
    ("kind", "amount", "told"),
    [
        ("params", 1234, "budget 1,234 parameters"),
        ("steps", 400, "budget 400 steps"),
        ("flops", 5.0e6, "budget 5M FLOPs"),
        ("time", 12.34, "budget 12.3 s of training"),
        ("flops", None, "budget FLOPs"),
    ],
)
def test_the_budget_of_all_rows_is_named(tmp_path, kind, amount, told):
    found = compared(tmp_path / "sweep", kind, amount, scaled_dot={}, cnn={})
    assert told in markdown(found)
    report.write(found, str(tmp_path / "out"), command="x")
    assert told in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    rows = json.loads((tmp_path / "out" / "table.json").read_text(encoding="utf-8"))
    assert [(row["budget"], row["budget_amount"]) for row in rows] == [(kind, amount)] * 2


def test_a_budget_of_time_that_was_missed_is_pointed_out(tmp_path):
    slow = {"train_seconds": 14.0}
    (line,) = notes(
        compared(tmp_path, "time", 10.0, scaled_dot={}, cnn=slow), "seconds of training"
    )
    assert "by up to 40 % (scaled_dot 10.0 s, cnn 14.0 s)" in line
    assert line.endswith(", though they were the budget")


def test_time_is_compared_only_where_it_was_the_budget(tmp_path):
    slow = {"train_seconds": 14.0}
    found = compared(tmp_path / "flops", "flops", 5e6, scaled_dot={}, cnn=slow)
    assert not notes(found, "seconds of training")
    near = {"train_seconds": 10.19}
    found = compared(tmp_path / "time", "time", 10.0, scaled_dot={}, cnn=near)
    assert not notes(found, "seconds of training")


def test_what_the_budget_was_not_about_is_only_pointed_out(tmp_path):
    more = {"flops": 6_000_000, "num_params": 1500}
    found = compared(tmp_path, "flops", 5e6, scaled_dot={}, cnn=more)
    (flops,), (parameters,) = notes(found, "FLOPs"), notes(found, "parameters")
    assert flops.endswith("equal FLOPs, though they were the budget")
    assert parameters.endswith("equal parameters")


def test_a_row_with_runs_of_no_budget_has_none(tmp_path):
    compared(tmp_path / "sweep", "time", 10.0, scaled_dot={}, cnn={"train_seconds": 14.0})
    write_run(tmp_path / "more", variant="cnn", seed=1)
    found = compare([str(tmp_path)], Options())
    budgets = {chosen.row.name: chosen.row.budget for chosen in found.chosen}
    assert budgets == {"scaled_dot": "time", "cnn": None}
    assert not notes(found, "seconds of training") and "In all rows: budget" not in markdown(found)


def test_a_trial_that_is_not_listed_yet_has_the_budget_of_its_sweep(tmp_path):
    compared(tmp_path, "params", 1000, scaled_dot={})
    write_run(tmp_path / "trials" / "new", variant="cnn")
    found = compare([str(tmp_path)], Options())
    assert [chosen.row.budget for chosen in found.chosen] == ["params"] * 2


@pytest.mark.parametrize("row", [{"budget": {"a": 1}}, {"budget": 3}, {"budget": None}])
def test_a_budget_that_cannot_be_read_is_none(tmp_path, row):
    write_sweep(tmp_path, [{"row": row}])
    (chosen,) = compare([str(tmp_path)], Options()).chosen
    assert chosen.row.budget is None
