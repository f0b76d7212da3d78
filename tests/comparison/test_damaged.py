"""Runs that are damaged, made by another program, or of no number: said, and never a traceback."""

from __future__ import annotations

import json
import math

import pytest
from support.fake_runs import write_run, write_sweep, write_tagging_run

from attention.comparison import methods, report
from attention.comparison.answer import answer
from attention.comparison.comparing import Options, compare
from attention.comparison.examples import load_examples
from attention.comparison.runs import find_runs
from attention.errors import UserError

pytestmark = pytest.mark.fast


def two_variants(folder):
    for seed in range(2):
        write_run(folder / f"a{seed}", seed=seed, dev=0.8, test=0.7 + seed / 100)
        write_run(folder / f"b{seed}", seed=seed, dev=0.9, test=0.8 + seed / 50, variant="l2")
    return folder


def change(run, **keys):
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, **keys}), encoding="utf-8")


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"eval": [1]}, "result.json has eval=[1]"),
        ({"test": "x"}, "result.json has test='x'"),
        ({"variant": ["a"]}, "result.json has variant=['a']"),
        ({"versions": 3}, "result.json has versions=3"),
        ({"status": 3}, "result.json has status=3"),
        ({"average": {"steps": 3}}, "result.json has average.steps=3"),
        ({"eval": {"accuracy": math.nan}}, "its dev accuracy is no number"),
        ({"eval": {"accuracy": -math.inf}}, "its dev accuracy is no number"),
        ({"eval": {"accuracy": None}}, "its dev accuracy is no number"),
        ({"eval": {}}, "it has no dev score"),
        ({"test": {"accuracy": math.inf}}, "it has no test accuracy"),
    ],
)
def test_a_result_that_cannot_be_used_is_listed_and_the_rest_compared(tmp_path, keys, reason):
    runs = two_variants(tmp_path)
    change(runs / "a0", **keys)
    found = compare([str(runs)], Options())
    assert [(chosen.row.name, chosen.row.n_seeds) for chosen in found.chosen] == [
        ("l2", 2),
        ("scaled_dot", 1),
    ]
    assert [(run.workdir, why) for run, why in found.rejected] == [(f"{runs}/a0", reason)]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_half_a_file_makes_a_run_unreadable(tmp_path, name, text):
    runs = two_variants(tmp_path)
    (runs / "a0" / name).write_text(text)
    found = {run.workdir: run for run in find_runs([str(runs)])}
    assert found[f"{runs}/a0"].status == "unreadable" and name in found[f"{runs}/a0"].reason


def test_curves_without_a_number_are_drawn_as_far_as_they_go(tmp_path):
    runs = two_variants(tmp_path / "runs")
    for name in ("a0", "a1", "b0", "b1"):
        rows = '{"step": 1, "eval/accuracy": NaN}\n{"step": 2, "eval/acc'
        (runs / name / "metrics.jsonl").write_text(rows)
    found = compare([str(runs)], Options())
    assert found.runs[0].curve("accuracy") == []
    report.write(found, str(tmp_path / "out"), command="x")


def test_a_trial_without_a_run_may_have_set_whole_sections(tmp_path):
    overrides = {"model.attention": {"variant": "l2", "sizes": [1, 2]}, "task": "pos_tagging"}
    row = {"overrides": overrides, "error": "refused"}
    made = write_sweep(tmp_path, [{"seed": 1}, {"run": False, "status": "failed", "row": row}])
    found = compare([str(made)], Options())
    ((run, reason),) = found.rejected
    assert run.variant == "l2" and reason == "refused"


@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_unfinished_runs_on_other_data_are_not_mixed_either(tmp_path, status):
    runs = two_variants(tmp_path)
    change(runs / "a0", status=status, eval_hash="f" * 16)
    compare([str(runs)], Options())
    with pytest.raises(UserError, match=r"different eval_hash.*ffffffffffff"):
        compare([str(runs)], Options(include_running=True))


AVERAGE = {"steps": [20, 30], "eval": {"accuracy": 0.95}, "test": {"accuracy": 0.5}}


def test_averaged_checkpoints_are_another_score_and_never_mixed_in(tmp_path):
    runs = two_variants(tmp_path)
    for name in ("a0", "a1"):
        change(runs / name, average=AVERAGE)
    found = compare([str(runs)], Options())
    assert {chosen.row.name: chosen.row.mean for chosen in found.chosen}["scaled_dot"] > 0.7
    assert any("2 runs have averaged checkpoints too" in line for line in found.cautions)

    averaged = compare([str(runs)], Options(checkpoint="average"))
    (chosen,) = averaged.chosen
    assert (chosen.row.name, chosen.row.mean, chosen.row.dev_mean) == ("scaled_dot", 0.5, 0.95)
    assert chosen.row.checkpoint == "average"
    assert {reason for _, reason in averaged.rejected} == {
        "it has no averaged checkpoints (average_checkpoints=0)"
    }
    assert any("those of averaged checkpoints" in line for line in averaged.cautions)
    assert any(line.startswith("Averages.") for line in methods.lines(averaged))
    assert not any(line.startswith("Averages.") for line in methods.lines(found))


def test_examples_of_an_average_are_those_of_its_own_files(tmp_path):
    run = write_tagging_run(tmp_path / "a", [[1, 0], [1, 1, 1]])
    for path in (run / "eval").iterdir():
        path.rename(path.with_name(path.name.replace("test-30", "test-average-30")))
    change(run, average={**AVERAGE, "test": {"accuracy": 0.8}})
    (found,) = find_runs([str(run)])
    examples = load_examples(found.averaged(), "test", "accuracy")
    assert examples.statistics.tolist() == [[1, 2], [3, 3]]


def test_rows_that_are_level_on_dev_are_said_to_be(tmp_path):
    for variant in ("scaled_dot", "l2", "cosine"):
        for seed in range(2):
            dev = 0.4 if variant == "l2" else 0.5
            write_run(tmp_path / f"{variant}{seed}", seed=seed, variant=variant, dev=dev, test=0.5)
    found = compare([str(tmp_path)], Options())
    (members,) = found.panels().values()
    first = "cosine is best on dev (test accuracy 50.00 ± 0.00 %, 2 seeds), level with scaled_dot."
    assert first in answer(members)
