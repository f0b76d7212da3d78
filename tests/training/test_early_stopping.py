"""Early stopping: a run ends where dev has not improved for long enough, and knows that later."""

from __future__ import annotations

import json
import shutil

import pytest
from support.runs import metrics_rows, saved_arrays, small_config

from attention.errors import Interrupted
from attention.training import loop

# Nothing is learned: the first evaluation, of step 2, stays the best.
STILL = {
    "optimizer__learning_rate": 0.0,
    "eval_every_steps": 2,
    "checkpoint_every_steps": 5,
    "early_stopping_evaluations": 3,
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    return folder, loop.train(small_config(folder / "data", **STILL), str(folder / "run"))


def evaluated(run) -> list[int]:
    return [row["step"] for row in metrics_rows(run) if "eval/accuracy" in row]


def test_a_run_ends_after_so_many_evaluations_without_gain(stopped):
    folder, result = stopped
    assert evaluated(folder / "run") == [2, 4, 6, 8]
    assert result["status"] == "complete" and result["stopped_early"]
    assert result["step"] == 8 and result["best_step"] == 2
    assert result["eval"] and result["test"]
    saved = {int(entry.name) for entry in (folder / "run" / "checkpoints").iterdir()}
    assert saved == {2, 8}
    assert (folder / "run" / "eval" / "test-2.json").exists()


def test_the_reason_is_logged_and_the_same_command_has_nothing_to_do(stopped, tmp_path, caplog):
    folder, result = stopped
    config = small_config(folder / "data", **STILL)
    with caplog.at_level("INFO"):
        loop.train(config, str(tmp_path / "again"))
    assert "stopping early at step 8: eval/accuracy has not risen since step 2" in caplog.text
    assert "early_stopping_evaluations=3" in caplog.text
    run = shutil.copytree(folder / "run", tmp_path / "run")
    longer = small_config(folder / "data", **STILL, train_steps=50)
    for again in (config, longer):  # it had stalled, however long it might be
        assert loop.train(again, str(run)) == result
    assert metrics_rows(run) == metrics_rows(folder / "run")


def test_a_stopped_run_whose_result_is_lost_is_scored_again(stopped, tmp_path):
    folder, result = stopped
    run = shutil.copytree(folder / "run", tmp_path / "run")
    (run / "result.json").unlink()
    again = loop.train(small_config(folder / "data", **STILL), str(run))
    assert again["step"] == 8 and again["eval"] == result["eval"] and again["stopped_early"]
    assert metrics_rows(run) == metrics_rows(folder / "run")


@pytest.mark.parametrize(
    "step", [7, *(pytest.param(step, marks=pytest.mark.slow) for step in (3, 6))]
)
def test_an_interrupted_run_stops_where_the_unbroken_one_does(stopped, tmp_path, monkeypatch, step):
    folder, result = stopped
    config, run = small_config(folder / "data", **STILL), tmp_path / "run"
    take_step = loop.Trainer._take_step

    def take_and_stop(self):
        take_step(self)
        if self.step == step:
            self._interrupt.requested = "SIGTERM"

    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "_take_step", take_and_stop)
        with pytest.raises(Interrupted):
            loop.train(config, str(run))
    assert not json.loads((run / "result.json").read_text())["stopped_early"]
    again = loop.train(config, str(run))
    assert (again["step"], again["best_step"]) == (result["step"], result["best_step"])
    assert metrics_rows(run) == metrics_rows(folder / "run")
    for name, array in saved_arrays(folder / "run", 8).items():
        assert (saved_arrays(run, 8)[name] == array).all(), name


def test_it_is_off_by_default_and_without_a_dev_split(tmp_path):
    off = {**STILL, "early_stopping_evaluations": 0}
    result = loop.train(small_config(tmp_path / "data", **off), str(tmp_path / "off"))
    assert result["step"] == 12 and not result["stopped_early"]
    assert small_config(tmp_path / "data").early_stopping_evaluations == 0
    alone = small_config(tmp_path / "data", **STILL, data__eval_path=None)
    assert loop.train(alone, str(tmp_path / "alone"))["step"] == 12
