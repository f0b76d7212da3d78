"""Sweeps of real, tiny runs by the commands a user types; and a run that is pruned."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.runs import environ, flags, losses, metrics_rows, run, small_config, small_overrides

from attention.training.loop import train

SPEC = "configs/pos_tagging.py"
RECIPE = """
from configs.pos_tagging import get_config

def sweep():
    yield {"arg": "seed=1", "optimizer.learning_rate": 3e-3}
    yield {"optimizer.learning_rate": 1e9, "optimizer.clip_norm": 1e9}
    yield {"model.num_heads": 7}
    yield {"model.dropout_rate": 0.0}
"""


@pytest.mark.slow
def test_a_sweep_names_runs_that_the_printed_command_makes_again(tmp_path: Path) -> None:
    """Cases 116 and 117: an invalid point, one that diverges, and two results."""
    (tmp_path / "recipe.py").write_text(RECIPE)
    overrides = small_overrides(tmp_path / "data")
    workdir = tmp_path / "s"
    command = [f"--config={tmp_path}/recipe.py:dataset=files,size=tiny", f"--workdir={workdir}"]
    # One worker: on other cores XLA adds in another order, and the last digits differ.
    done = run("sweep.py", *command, *flags(overrides))
    assert done.returncode == 1, done.stderr
    rows = [json.loads(line) for line in (workdir / "trials.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["complete", "failed", "failed", "complete"]
    assert "2 of 4 trials failed" in done.stderr and "Traceback" not in done.stderr
    assert "learning_rate" in rows[1]["error"] and "model.num_heads=7" in rows[2]["error"]
    for row in (rows[1], rows[2]):
        assert row["log"] in done.stderr and row["error"] in Path(row["log"]).read_text()
    for row in (rows[0], rows[3]):
        result = json.loads((Path(row["workdir"]) / "result.json").read_text())
        assert result["config_hash"] == row["config_hash"] == Path(row["workdir"]).name
        assert row["metric"] == result["eval"]["accuracy"]
    of_one_program = json.loads((Path(rows[1]["workdir"]) / "result.json").read_text())
    assert of_one_program["compile_seconds"] == 0 < result["compile_seconds"]
    assert result["seed"] == 0 and f"wrote {workdir}" in done.stdout

    again = rows[0]["command"].replace(rows[0]["workdir"], str(tmp_path / "again"))
    words = [sys.executable, *shlex.split(again)[1:]]
    subprocess.run(words, env=environ(), check=True, cwd=Path(__file__).parents[2])
    assert losses(tmp_path / "again") == losses(Path(rows[0]["workdir"]))
    assert metrics_rows(tmp_path / "again") == metrics_rows(Path(rows[0]["workdir"]))

    assert run("sweep.py", *command, *flags(overrides)).returncode == 1
    after = [json.loads(line) for line in (workdir / "trials.jsonl").read_text().splitlines()]
    assert after == rows


def test_help_is_quick_and_hides_what_is_for_workers() -> None:
    done = run("sweep.py", "--help")
    assert done.returncode == 0 and "--workers" in done.stdout and "example:" in done.stdout
    assert "--worker " not in done.stdout


def test_a_dry_run_lists_every_trial_and_makes_nothing(tmp_path: Path) -> None:
    done = run(
        "sweep.py",
        f"--config={SPEC}:size=tiny",
        f"--workdir={tmp_path}/s",
        "--dry_run",
        "--config.train_steps=5",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 24 and not (tmp_path / "s").exists()
    assert lines[0].endswith(
        f"--workdir={tmp_path}/s/trials/{lines[0].split()[1]} --config.train_steps=5 "
        "--config.optimizer.learning_rate=0.002"
    )
    assert f"--config={SPEC}:size=tiny,seed=0" in lines[0]
    assert len({line.split()[1] for line in lines}) == 24


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trails=3"], "did you mean '--trials'"),
        (["--trials=0"], "--trials=0: expected 1 or more"),
        (["--config.sed=1"], "did you mean 'seed'"),
        (["--index=99"], "--index=99: expected 0 to 23"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = run("sweep.py", f"--config={SPEC}", f"--workdir={tmp_path}/s", *words)
    assert done.returncode == 2 and not (tmp_path / "s").exists()
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert message in line and "Traceback" not in done.stderr


def test_planning_takes_no_accelerator(tmp_path: Path) -> None:
    """The command that starts the workers must leave the devices to them."""
    code = (
        "from attention.sweeping.plan import plan, read_sweep\n"
        f"sweep = read_sweep({SPEC!r}, [])\n"
        "assert len(plan(sweep, range(24))) == 24\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_a_pruned_run_ends_itself_and_can_be_gone_on_with(tmp_path: Path) -> None:
    config = small_config(tmp_path / "data", eval_every_steps=2)
    whole = train(config, str(tmp_path / "whole"))
    asked = []

    def prune(step: int, metrics: Mapping[str, float]) -> bool:
        asked.append((step, metrics["accuracy"]))
        return step >= 6

    result = train(config, str(tmp_path / "run"), prune=prune)
    assert [step for step, _ in asked] == [2, 4, 6]
    assert (result["status"], result["step"], result["test"]) == ("pruned", 6, None)
    best = max(score for _, score in asked)
    assert result["eval"]["accuracy"] == best
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["status"] == "pruned"
    assert (tmp_path / "run" / "checkpoints" / "6").is_dir()
    resumed = train(config, str(tmp_path / "run"))
    assert resumed["status"] == "complete" and resumed["test"] == whole["test"]
    assert metrics_rows(tmp_path / "run") == metrics_rows(tmp_path / "whole")


def test_a_run_pruned_at_its_last_step_is_complete(tmp_path: Path) -> None:
    config = small_config(tmp_path / "data")
    result = train(config, str(tmp_path / "run"), prune=lambda step, metrics: step == 12)
    assert result["status"] == "complete" and result["test"]
