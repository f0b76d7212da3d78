"""Trials that train at once: each is the run its printed command makes, and none is lost."""

from __future__ import annotations

import json
import logging
import weakref
from pathlib import Path

import jax
import pytest
from support.runs import flags, losses, run, small_config, small_overrides

from attention.errors import UserError
from attention.sweeping import running
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.grouping import read_width
from attention.sweeping.ledger import FileLedger
from attention.sweeping.plan import read_sweep
from attention.sweeping.setting import Scene, Setting, open_scene
from attention.sweeping.sweep import Selection, make_setting
from attention.sweeping.worker import take_trials
from attention.training.loop import train
from attention.training.mapped import MappedStep

RECIPE = """
from configs.pos_tagging import get_config

def sweep():
    for seed in (1, 2):
        for rate in RATES:
            yield {"seed": seed, "optimizer.learning_rate": rate}
    yield {"model.dim": 32}
"""
# The same order for all: trials that differ in numbers alone are then joined.
SHARED = {"train_steps": 4, "eval_every_steps": 2, "data.order_seed": 7}


def swept(tmp_path: Path, rates: str, *more: str, devices: int = 1):
    recipe = tmp_path / "recipe.py"
    recipe.write_text(RECIPE.replace("RATES", rates))
    overrides = {**small_overrides(tmp_path / "data"), **SHARED}
    spec = f"--config={recipe}:dataset=files,size=tiny"
    words = (spec, f"--workdir={tmp_path}/s", *more, *flags(overrides))
    done = run("sweep.py", *words, devices=devices)
    lines = (tmp_path / "s" / "trials.jsonl").read_text().splitlines()
    return done, [json.loads(line) for line in lines]


def result_of(row) -> dict:
    return json.loads((Path(row["workdir"]) / "result.json").read_text())


def test_trials_at_once_are_what_they_are_alone(tmp_path):
    done, rows = swept(tmp_path, "(1e-3, 1e30)", "--vectorize=2")
    assert done.returncode == 1, done.stderr  # those that diverge
    assert [row["status"] for row in rows] == 2 * ["complete", "failed"] + ["complete"]
    assert "the loss is" in rows[1]["error"]
    whole, other_shape = result_of(rows[0]), result_of(rows[4])
    assert whole["runs_at_once"] == 2 and other_shape["runs_at_once"] == 1
    ledger = FileLedger(tmp_path / "s" / "claims")
    assert [ledger.tries(row["config_hash"])[0].runs_at_once for row in rows] == [2, 2, 2, 2, 1]
    # The second group has the program of the first.
    assert whole["compile_seconds"] > 0 == result_of(rows[2])["compile_seconds"]

    alone = small_config(tmp_path / "data", **{k.replace(".", "__"): v for k, v in SHARED.items()},
                         seed=2, optimizer__learning_rate=1e-3)  # fmt: skip
    train(alone, str(tmp_path / "alone"))
    assert losses(Path(rows[2]["workdir"])) == pytest.approx(losses(tmp_path / "alone"), abs=1e-4)

    logs = [Path(row["log"]).read_text() for row in rows[:4]]
    assert all("one of 2 trained at once" in log and "step 2/4" in log for log in logs[::2])
    assert "error: step" in logs[1] and "error: step" not in logs[0]
    named = [[row["config_hash"] in log for row in rows[:4]] for log in logs]
    assert named == [[one == other for one in range(4)] for other in range(4)]


@pytest.mark.slow
def test_trials_at_once_share_two_devices(tmp_path):
    done, rows = swept(tmp_path, "(1e-3,)", "--vectorize=2", devices=2)
    assert done.returncode == 0, done.stderr
    trained = result_of(rows[0])
    assert trained["runs_at_once"] == 2 and trained["num_devices"] == 2
    alone = small_config(tmp_path / "data", **{k.replace(".", "__"): v for k, v in SHARED.items()},
                         seed=2, optimizer__learning_rate=1e-3)  # fmt: skip
    train(alone, str(tmp_path / "alone"))
    assert losses(Path(rows[1]["workdir"])) == pytest.approx(losses(tmp_path / "alone"), abs=1e-4)


@pytest.mark.slow
def test_auto_measures_and_a_second_command_adds_nothing(tmp_path):
    done, rows = swept(tmp_path, "(1e-3, 3e-3)", "--vectorize=auto")
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in rows] == 5 * ["complete"]
    _, again = swept(tmp_path, "(1e-3, 3e-3)", "--vectorize=auto")
    assert again == rows


def opened(tmp_path: Path, trials: int, **more) -> tuple[Scene, Setting]:
    """The first trials of a sweep, for a worker that is this process."""
    (tmp_path / "recipe.py").write_text(RECIPE.replace("RATES", "(1e-3, 2e-3)"))
    overrides = {**small_overrides(tmp_path / "data"), **SHARED}
    given = [(key, str(value)) for key, value in overrides.items()]
    sweep = read_sweep(f"{tmp_path}/recipe.py:dataset=files,size=tiny", given)
    setting = make_setting(sweep, tmp_path / "s", Selection(trials), **more)
    SweepDirectory(setting.workdir).create(sweep, storage=None)
    return open_scene(setting, sweep), setting


def test_trials_that_do_not_fit_into_memory_at_once_train_alone(tmp_path, monkeypatch, caplog):
    step, run_alone, held = MappedStep.__call__, running.run_alone, []

    def run_out_of_memory_at_the_second(*arguments, **more):
        if held:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory.\nIn detail: …")
        outcome = step(*arguments, **more)
        held.extend(weakref.ref(leaf) for leaf in jax.tree.leaves(outcome))
        return outcome

    def run_with_memory_freed(*arguments, **more):
        assert held and not any(array() is not None for array in held)
        return run_alone(*arguments, **more)

    monkeypatch.setattr(MappedStep, "__call__", run_out_of_memory_at_the_second)
    monkeypatch.setattr(running, "run_alone", run_with_memory_freed)
    scene, setting = opened(tmp_path, 3, vectorize="2", retries=0)
    with caplog.at_level(logging.WARNING, logger="attention.sweeping"):
        assert take_trials(scene, setting)
    trials = scene.board.known().trials
    tries = [
        [(one.status, one.kind, one.runs_at_once) for one in scene.ledger.tries(trial.name)]
        for trial in trials
    ]
    together, alone = ("failed", "together", 2), ("complete", "", 1)
    assert tries == [[together, alone], [together, alone], [alone]]
    words = "the step of 2 runs at once failed: JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory."
    for trial in trials[:2]:
        error = scene.ledger.tries(trial.name)[0].error
        assert words in error and "a lower --vectorize than 2" in error
        assert error in scene.directory.log(trial).read_text()
    (line,) = [r.getMessage() for r in caplog.records if r.name == "attention.sweeping.grouping"]
    assert line.startswith("--vectorize=2: ") and words in line


def test_what_keeps_auto_from_measuring_is_told_by_the_trials(tmp_path):
    scene, setting = opened(tmp_path, 2, vectorize="auto")
    (tmp_path / "data" / "train.conllu").unlink()
    assert take_trials(scene, setting)
    for trial in scene.board.known().trials:
        (one,) = scene.ledger.tries(trial.name)
        assert (one.status, one.kind) == ("failed", "input") and "train.conllu" in one.error


@pytest.mark.fast
@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "1000", ""])
def test_a_wrong_width_is_refused(text):
    with pytest.raises(UserError, match=r"--vectorize=.*expected auto"):
        read_width(text)


@pytest.mark.fast
def test_widths_that_are_right():
    assert [read_width(text) for text in ("1", "8", "auto")] == ["1", "8", "auto"]
