"""The run directory: safe writes, one trainer at a time, the metrics of a run that was killed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest

from attention.errors import UserError
from attention.training import atomic
from attention.training.run_directory import RunDirectory

pytestmark = pytest.mark.fast


def write_rows(run: RunDirectory, *rows: dict, end: str = "") -> None:
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows) + end, "utf-8")


@pytest.mark.parametrize("given", ["runs/x", "~/runs/x", "./runs/../runs/x"])
def test_the_path_is_resolved_once(tmp_path, monkeypatch, given):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = RunDirectory(given)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run.create()
    run.write_config("{}")
    assert (tmp_path / "runs" / "x" / "config.json").read_text() == "{}"
    assert run.path_as_given == given


def test_a_folder_with_other_things_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    for action in (
        RunDirectory(tmp_path).create,
        lambda: RunDirectory(tmp_path).lock().__enter__(),
    ):
        with pytest.raises(UserError, match=r"thesis\.tex"):
            action()
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        RunDirectory(tmp_path / "file").create()
    with pytest.raises(UserError, match="cannot be used"):
        RunDirectory(tmp_path / "file" / "below").create()


@pytest.mark.parametrize("names", [[], ["config.json", "my notes"], [".lock", "config.json.7.tmp"]])
def test_an_empty_folder_a_run_and_a_run_killed_at_its_start_are_accepted(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("{}")
    RunDirectory(tmp_path).create()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(names)


def test_require_tells_what_is_missing(run, tmp_path):
    with pytest.raises(UserError, match=r"no config\.json"):
        run.require()
    with pytest.raises(UserError, match="does not exist"):
        RunDirectory(tmp_path / "nothing").require()
    run.write_config("{}")
    run.require()


_HOLD = """
    import sys
    from attention.training.run_directory import RunDirectory
    with RunDirectory(sys.argv[1]).lock():
        print("held", flush=True)
        sys.stdin.readline()
"""


@contextlib.contextmanager
def other_process_holding(run: RunDirectory):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_HOLD), str(run.path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_two_trainers_in_one_directory(run):
    with other_process_holding(run) as process:
        with pytest.raises(UserError, match=f"in use by process {process.pid} on "), run.lock():
            pass
        process.kill()
        process.wait()
        with run.lock():
            pass
    with run.lock(), pytest.raises(UserError, match=f"process {os.getpid()}"), run.lock():
        pass
    with run.lock():
        pass


def test_a_write_that_fails_leaves_the_old_file(run, monkeypatch):
    run.write_result({"step": 1})

    def fail(_):
        raise OSError("disk full")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        run.write_result({"step": 2})
    assert run.read_result() == {"step": 1}
    assert os.listdir(run.path) == ["result.json"]


def test_who_is_reading_the_old_file_reads_on_in_it(run):
    run.write_result({"step": 1})
    with run.result_file.open() as reader:
        run.write_result({"step": 2})
        assert json.load(reader) == {"step": 1}
    assert run.read_result() == {"step": 2}


def test_json_is_valid_and_exact():
    values = {
        "third": 1 / 3,
        "float32": np.float32(0.1),
        "jax": jnp.float32(0.1),
        "count": np.int64(3),
        "nan": float("nan"),
        "nested": {"inf": [np.float32("inf"), 1]},
        "text": "čaj ⟂",
        "none": None,
        "flag": True,
    }
    read = json.loads(atomic.to_json(values), parse_constant=pytest.fail)
    assert read["third"] == 1 / 3
    assert read["float32"] == read["jax"] == float(np.float32(0.1))
    assert read["count"] == 3 and isinstance(read["count"], int)
    assert read["nan"] is None and read["nested"] == {"inf": [None, 1]}
    assert read["text"] == "čaj ⟂" and read["none"] is None and read["flag"] is True


def test_result_before_and_after_the_first_evaluation(run):
    assert run.read_result() is None
    assert not run.completed(10)
    run.write_result({"status": "running", "step": 10})
    assert not run.completed(10)
    run.write_result({"status": "complete", "step": 10})
    assert run.completed(10) and not run.completed(11)
    run.result_file.write_text("{")
    assert run.read_result() is None  # nothing depends on it, and it is written again


def test_config_round_trip(run):
    assert run.read_config() is None
    run.write_config('{"a": 1}\n')
    assert run.read_config() == '{"a": 1}\n'


def test_the_best_step_is_the_highest_and_of_equals_the_earliest(run):
    best = run.best_of("eval/accuracy")
    assert best([10, 20]) is None
    write_rows(
        run,
        {"step": 10, "eval/accuracy": 0.5},
        {"step": 15, "train/loss": 9.0},
        {"step": 20, "eval/accuracy": 0.75},
        {"step": 30, "eval/accuracy": 0.75},
        {"step": 40, "eval/accuracy": None},
        {"step": 50, "eval/accuracy": 0.9},
    )
    assert best([50, 30, 20, 10]) == 50
    # Killed after the evaluation at step 50 and before its checkpoint was whole.
    assert best([40, 30, 20, 10]) == 20
    assert best([40, 30]) == 30
    assert best([40, 15]) is None
    assert [row["step"] for row in run.eval_rows()] == [10, 20, 30, 40, 50]


def test_resuming_drops_the_rows_after_the_checkpoint_and_a_torn_line(run, caplog):
    assert run.truncate_metrics(0) == 0
    assert not run.metrics_file.exists()
    rows = [{"step": step, "train/loss": 1 / 3} for step in (1, 2, 2, 3, 4)]
    write_rows(run, *rows, end='{"step": 5, "train/lo')
    whole = "".join(json.dumps(row) + "\n" for row in rows[:3])
    assert run.rows() == rows
    assert run.truncate_metrics(2) == 2
    assert run.metrics_file.read_text() == whole
    assert caplog.records and "last line" in caplog.text
    caplog.clear()
    assert run.truncate_metrics(2) == 0
    assert run.metrics_file.read_text() == whole
    assert not caplog.records


def test_a_last_line_torn_within_a_character(run):
    whole = json.dumps({"step": 1, "note": "čaj"}, ensure_ascii=False) + "\n"
    torn = '{"step": 2, "note": "č'.encode()[:-1]
    run.metrics_file.write_bytes(whole.encode() + torn)
    assert run.rows() == [{"step": 1, "note": "čaj"}]
    run.truncate_metrics(9)
    assert run.metrics_file.read_text("utf-8") == whole


@pytest.mark.parametrize("line", ["{", "3", '{"train/loss": 1}', '{"step": "7"}', ""])
def test_a_wrong_line_names_file_and_number(run, line):
    run.metrics_file.write_text(f'{{"step": 1}}\n{line}\n{{"step": 2}}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl:2: expected a JSON object"):
        run.rows()


def test_the_tokenizer_is_there_whole_or_not_at_all(run):
    def fail(folder):
        (folder / "words.txt").write_text("a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.install_tokenizer(fail)
    assert not run.has_tokenizer
    run.install_tokenizer(lambda folder: (folder / "tags.txt").write_text("b"))
    assert run.has_tokenizer
    assert os.listdir(run.tokenizer) == ["tags.txt"]
    assert os.listdir(run.path) == ["tokenizer"]


def test_samples_and_evaluations(run):
    run.write_samples(30, ["one", "zwei ⟂"])
    assert (run.path / "samples" / "30.txt").read_text("utf-8") == "one\nzwei ⟂\n"
    run.write_evaluation("dev-30", {"accuracy": 0.5}, {"predictions": ["a_X", "", "b_Y"]})
    assert json.loads((run.path / "eval" / "dev-30.json").read_text()) == {"accuracy": 0.5}
    assert (run.path / "eval" / "dev-30.predictions.txt").read_text() == "a_X\n\nb_Y\n"
    run.write_evaluation("dev-30.x-30", {}, {"predictions": [], "references": []})
    (run.path / "eval" / "notes.txt").touch()
    assert run.evaluation_files("dev-30") == ["dev-30.json", "dev-30.predictions.txt"]
    assert [name[12:] for name in run.evaluation_files("dev-30.x-30")[1:]] == [
        "predictions.txt",
        "references.txt",
    ]
    run.write_samples(0, [])
    assert (run.path / "samples" / "0.txt").read_text() == ""


def test_a_file_system_without_locks_is_warned_of(run, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("attention.training.run_directory.fcntl.flock", unsupported)
    with caplog.at_level(logging.WARNING), run.lock():
        pass
    assert "cannot be locked" in caplog.text
