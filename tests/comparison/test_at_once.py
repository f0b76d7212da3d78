"""Runs trained at once by one program: time and memory are those of all of them."""

from __future__ import annotations

import pytest
from support.fake_runs import write_run

from attention.comparison import methods
from attention.comparison.comparing import Options, compare
from attention.comparison.tables import markdown

pytestmark = pytest.mark.fast


def compared(folder, **numbers):
    """Runs of each variant, one a number of runs at once; None: result.json does not say it."""
    for variant, several in numbers.items():
        for seed, number in enumerate(several):
            result = {} if number is None else {"runs_at_once": number}
            write_run(folder / f"{variant}{seed}", variant=variant, seed=seed, result=result)
    return compare([str(folder)], Options())


def notes(found):
    return [line for line in found.cautions if "at once" in line]


def test_rows_trained_at_once_and_alone_are_pointed_out(tmp_path):
    found = compared(tmp_path, scaled_dot=(8, 8), cnn=(1, 1), rnn=(1, 1))
    (line,) = notes(found)
    assert line.startswith("runs were trained 1 (cnn, rnn) and 8 (scaled_dot) at once: train time")
    assert "| at once |" in markdown(found)
    assert {chosen.row.name: chosen.row.runs_at_once for chosen in found.chosen}["cnn"] == "1"


def test_a_row_of_both_kinds_is_pointed_out_though_it_is_the_only_one(tmp_path):
    (line,) = notes(compared(tmp_path, cnn=(8, 1)))
    assert line.startswith("runs were trained 8/1 (cnn) at once")


def test_a_number_that_all_share_is_said_without_a_note(tmp_path):
    found = compared(tmp_path, scaled_dot=(8, 8), cnn=(8, 8))
    assert not notes(found) and "at once 8" in markdown(found)
    assert any(line.startswith("Runs at once.") for line in methods.lines(found))


def test_runs_that_do_not_say_it_were_trained_alone(tmp_path):
    found = compared(tmp_path, scaled_dot=(1, 1), cnn=(None, None))
    assert not notes(found) and "at once" not in markdown(found)
    assert not any("at once" in line for line in methods.lines(found))
