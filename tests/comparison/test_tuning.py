"""How much a row was tuned: settings that came to no score were tried as well."""

from __future__ import annotations

import pytest
from support.fake_runs import write_run, write_sweep

from attention.comparison.comparing import Options, compare
from attention.comparison.page import page

pytestmark = pytest.mark.fast

RATE = "optimizer__learning_rate"


def trials(variant, **endings):
    """Two seeds of each learning rate, which end as is said of the rate."""
    return [
        {"variant": variant, "seed": seed, RATE: rate, "dev": 0.8 - rate, **endings.get(name, {})}
        for name, rate in (("low", 0.001), ("middle", 0.01), ("high", 0.1))
        for seed in (0, 1)
    ]


def compared(folder, *every):
    write_sweep(folder, [trial for several in every for trial in several])
    found = compare([str(folder)], Options())
    return found, {chosen.row.name: chosen.row for chosen in found.chosen}


@pytest.mark.parametrize("status", ["diverged", "failed", "pruned"])
def test_a_rate_without_a_score_was_tried_and_tuning_was_equal(tmp_path, status):
    lost = {"status": status}
    found, rows = compared(tmp_path, trials("scaled_dot"), trials("cnn", high=lost))
    assert {name: row.n_settings for name, row in rows.items()} == {"scaled_dot": 3, "cnn": 3}
    assert not [line for line in found.cautions if "tuning was not equal" in line]
    write_run(tmp_path / "more", variant="cnn", status="failed", **{RATE: 1.0})
    lines = compare([str(tmp_path), str(tmp_path / "more")], Options()).cautions
    assert [line for line in lines if "scaled_dot 3, cnn 4" in line or "cnn 4, scaled" in line]


def test_a_rate_still_in_training_was_not_tried_yet(tmp_path):
    waiting = {"status": "running"}
    found, rows = compared(tmp_path, trials("scaled_dot"), trials("cnn", high=waiting))
    assert rows["scaled_dot"].n_settings == 3 and rows["cnn"].n_settings == 2
    assert any("tuning was not equal" in line for line in found.cautions)
    unfinished = compare([str(tmp_path)], Options(include_running=True))
    assert [chosen.row.n_settings for chosen in unfinished.chosen] == [3, 3]


def test_the_ends_are_those_of_all_that_was_tried(tmp_path):
    lost = {"status": "diverged"}
    found, rows = compared(tmp_path / "one", trials("cnn", middle=lost, high=lost))
    assert rows["cnn"].tuned == "learning_rate=0.001"
    assert any("the lowest that was tried" in line for line in found.cautions)
    best = {"dev": 0.9}
    found, rows = compared(tmp_path / "two", trials("cnn", middle=best, high=lost))
    assert rows["cnn"].tuned == "learning_rate=0.01"
    assert not [line for line in found.cautions if "that was tried" in line]


def test_the_page_lists_what_came_to_no_score(tmp_path):
    lost = {"status": "diverged"}
    found, _ = compared(tmp_path, trials("cnn", middle=lost, high=lost))
    html = page(found, {}, command="compare.py")
    assert "3 settings" in html and "no score · optimizer.learning_rate=0.1<" in html
