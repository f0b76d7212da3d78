"""Finding runs and sweeps, and reading them whatever state they are in."""

from __future__ import annotations

import json

import pytest
from support.fake_runs import write_run, write_sweep, write_tagging_run

from attention.comparison.examples import NoExamples, load_examples
from attention.comparison.runs import find_runs
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_runs_sweeps_and_folders_of_both_are_found_once_and_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "b")
    write_run(tmp_path / "runs" / "a")
    write_sweep(tmp_path / "runs" / "deep" / "sweep", [{"seed": 1}])
    (tmp_path / "runs" / ".hidden").mkdir()
    write_run(tmp_path / "runs" / ".hidden" / "c")
    found = find_runs(["runs/b", "runs", str(tmp_path / "runs" / "a")])
    trial = "runs/deep/sweep/trials/0000000000000000"
    assert [run.workdir for run in found] == ["runs/b", "runs/a", trial]


def test_what_is_no_run_is_refused_with_the_nearest_name(tmp_path):
    write_run(tmp_path / "runs")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, message in (
        ("rnus", r"rnus does not exist \(did you mean 'runs'\?\)"),
        ("empty", "empty holds no run"),
        ("file", "file is a file"),
    ):
        with pytest.raises(UserError, match=message):
            find_runs([str(tmp_path / "runs"), str(tmp_path / name)])


def test_nothing_is_dropped_without_a_word(tmp_path):
    write_run(tmp_path / "good")
    write_run(tmp_path / "killed", status="running")
    write_run(tmp_path / "half")
    (tmp_path / "half" / "result.json").write_text('{"status": "comp')
    write_run(tmp_path / "new")
    (tmp_path / "new" / "result.json").unlink()
    write_run(tmp_path / "odd")
    (tmp_path / "odd" / "config.json").write_text("[]")
    found = {run.path.name: (run.status, run.reason) for run in find_runs([str(tmp_path)])}
    assert found["good"] == ("complete", "")
    assert found["killed"] == ("running", "it has not finished, or was killed")
    assert found["half"] == ("unreadable", "result.json is not valid JSON")
    assert found["new"][0] == "not evaluated"
    assert found["odd"] == ("unreadable", "config.json holds no JSON object")


def test_a_sweep_says_what_became_of_its_trials(tmp_path):
    sweep = write_sweep(
        tmp_path / "sweep",
        [
            {"seed": 0},
            {"seed": 1, "status": "failed", "run": False},
            {"seed": 2, "status": "diverged"},
            {"seed": 3, "status": "running"},
            {"seed": 4, "status": "pruned", "run_status": "pruned"},
            {"seed": 5, "status": "running", "run_status": "complete"},  # killed before noting it
            {"seed": 6, "status": "failed", "run_status": "complete"},  # likewise, the second try
        ],
    )
    write_run(sweep / "trials" / "not_listed", seed=7)
    found = find_runs([str(sweep)])
    assert [(run.status, bool(run.reason)) for run in found] == [
        ("complete", False),
        ("failed", True),
        ("diverged", True),
        ("running", True),
        ("pruned", True),
        ("complete", False),
        ("complete", False),
        ("complete", False),
    ]


def test_the_error_and_the_log_that_a_sweep_noted_are_the_reason(tmp_path):
    row = {"error": "loss is nan at step 3", "log": "sweep/trials/x.log"}
    refused = {"config_hash": None, "workdir": None, "error": "model.dim=7 is odd", "log": None}
    sweep = write_sweep(
        tmp_path,
        [
            {"status": "failed", "run_status": "running", "row": row},
            {"status": "failed", "run": False, "row": refused},
            {"status": "planned", "run": False},
        ],
    )
    assert [(run.status, run.reason) for run in find_runs([str(sweep)])] == [
        ("failed", "loss is nan at step 3 (log: sweep/trials/x.log)"),
        ("failed", "model.dim=7 is odd"),
        ("planned", "it has not begun"),
    ]


def test_a_trial_that_was_tried_again_is_one_run_with_its_last_status(tmp_path):
    sweep = write_sweep(tmp_path, [{"seed": 0, "status": "failed"}, {"seed": 1}])
    again = {"config_hash": f"{0:016x}", "status": "failed", "attempts": 2, "error": "the second"}
    with (sweep / "trials.jsonl").open("a") as file:
        file.write(json.dumps(again) + "\n" + '{"trial": 1, "torn')
    found = {run.seed: (run.status, run.reason) for run in find_runs([str(sweep)])}
    assert found == {0: ("failed", "the second"), 1: ("complete", "")}


def test_the_types_beside_a_config_are_no_keys_of_it(tmp_path):
    (run,) = find_runs([str(write_run(tmp_path))])
    assert run.config["optimizer.warmup_steps"] == "5%"
    assert not [key for key in run.config if key.startswith("__")]


def test_a_moved_sweep_is_read_where_it_is(tmp_path):
    write_sweep(tmp_path / "old", [{"seed": 0}])
    (tmp_path / "old").rename(tmp_path / "new")
    (run,) = find_runs([str(tmp_path / "new")])
    assert run.status == "complete" and "/new/trials/" in run.workdir


def test_the_curve_is_in_order_of_numbers_and_a_torn_line_is_left_out(tmp_path):
    run = write_run(tmp_path)
    rows = [{"step": s, "eval/accuracy": s / 10} for s in (900, 10000, 1000)]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"step": 1, "eval/acc'
    (run / "metrics.jsonl").write_text(text)
    (found,) = find_runs([str(run)])
    assert found.curve("accuracy") == [(900, 90.0), (1000, 100.0), (10000, 1000.0)]


def test_examples_are_those_of_the_best_step_by_its_number(tmp_path):
    run = write_tagging_run(tmp_path, [[1, 0], [1]], result={"best_step": 10000, "step": 10000})
    for step in (900, 9000):  # as text, 9000 comes after 10000
        (run / "eval" / f"test-{step}.predictions.txt").write_text("w0.0_NOUN w0.1_X\nw1.0_X\n")
        (run / "eval" / f"test-{step}.references.txt").write_text("w0.0_X w0.1_X\nw1.0_X\n")
    (found,) = find_runs([str(run)])
    assert load_examples(found, "test", "accuracy").statistics.tolist() == [[1, 2], [1, 1]]


def test_words_with_blanks_underscores_and_no_tag_are_counted_right(tmp_path):
    run = write_tagging_run(tmp_path, [[1, 1], [1], [0]], result={"test": {"accuracy": 3 / 5}})
    stem = run / "eval" / "test-30"
    references = "10 000_NUM a_b_NOUN\nx__ y_VERB z__\n_____PUNCT w\u2028_X\n"
    predicted = "10 000_NUM a_b_VERB\nx_NOUN y_VERB z_ADJ\n_____PUNCT w\u2028_Y\n"
    stem.with_name("test-30.references.txt").write_text(references, encoding="utf-8")
    stem.with_name("test-30.predictions.txt").write_text(predicted, encoding="utf-8")
    (found,) = find_runs([str(run)])
    expected = [[1, 2], [1, 1], [1, 2]]
    assert load_examples(found, "test", "accuracy").statistics.tolist() == expected


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda stem: stem.with_name("test-30.references.txt").unlink(), "is missing: eval.py"),
        (
            lambda stem: stem.with_name("test-30.predictions.txt").write_text("w0.0_NOUN\n"),
            "1 predictions and 2 references",
        ),
        (
            lambda stem: stem.with_name("test-30.predictions.txt").write_text("w_X\nw_X\n"),
            "give accuracy 0.000000, its result 0.66",
        ),
    ],
)
def test_examples_that_do_not_give_the_reported_score_are_not_used(tmp_path, harm, message):
    run = write_tagging_run(tmp_path, [[1, 0], [1]])
    harm(run / "eval" / "test-30")
    (found,) = find_runs([str(run)])
    with pytest.raises(NoExamples, match=message):
        load_examples(found, "test", "accuracy")
