"""`kill -9` at random moments of a real run: the same command ends with the same bits."""

import random
import shutil
import subprocess
import time

import numpy as np
import pytest
from support.runs import command, environ, flags, metrics_rows, run, saved_arrays, small_overrides

SPEC = "configs/pos_tagging.py:dataset=files,size=tiny"


def arguments(folder, workdir) -> list[str]:
    overrides = small_overrides(
        folder,
        train_steps=60,
        eval_every_steps=10,
        checkpoint_every_steps=3,  # so that many kills fall into a save
        log_every_steps=2,
        model__dropout_rate=0.2,
    )
    return [f"--config={SPEC}", f"--workdir={workdir}", *flags(overrides)]


def kill_some_time_later(process, workdir, generator) -> bool:
    """Kills at a random moment after the run has logged something new; False if it ended first."""
    metrics = workdir / "metrics.jsonl"
    lines = metrics.read_text().count("\n") if metrics.exists() else 0
    wanted = lines + generator.randint(0, 6)
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        now = metrics.read_text().count("\n") if metrics.exists() else 0
        if metrics.exists() and now >= wanted:
            break
        time.sleep(0.01)
    time.sleep(generator.uniform(0, 0.3))
    process.kill()
    return process.wait() != 0


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_killed_runs_end_with_the_bits_of_an_unbroken_one(tmp_path, kills):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = run("train.py", *arguments(tmp_path / "data", whole))
    assert done.returncode == 0, done.stderr

    generator = random.Random(kills)
    killed = 0
    for _ in range(kills):
        with subprocess.Popen(
            command("train.py", *arguments(tmp_path / "data", broken)),
            env=environ(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            killed += kill_some_time_later(process, broken, generator)
    assert killed >= max(1, kills - 1)

    done = run("train.py", *arguments(tmp_path / "data", broken))
    assert done.returncode == 0, done.stderr
    assert metrics_rows(broken) == metrics_rows(whole)
    expected, arrays = saved_arrays(whole, 60), saved_arrays(broken, 60)
    assert expected.keys() == arrays.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_a_partial_newest_checkpoint_is_passed_over(tmp_path):
    """An empty folder and one with a file cut short, as a full disk or a copy may leave them."""
    workdir = tmp_path / "run"

    def train(steps: int):
        overrides = small_overrides(tmp_path / "data", train_steps=steps, checkpoint_every_steps=3)
        return run("train.py", f"--config={SPEC}", f"--workdir={workdir}", *flags(overrides))

    checkpoints = workdir / "checkpoints"
    assert train(6).returncode == 0
    older = shutil.copytree(checkpoints / "6", tmp_path / "6")
    assert train(9).returncode == 0
    expected = saved_arrays(workdir, 9)

    shutil.rmtree(checkpoints / "6", ignore_errors=True)
    older.rename(checkpoints / "6")
    largest = max((checkpoints / "9").rglob("*"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-10])
    (checkpoints / "12").mkdir()
    (checkpoints / "notes").mkdir()
    (workdir / "result.json").unlink()
    done = train(9)
    assert done.returncode == 0, done.stderr
    assert "12" in done.stderr and "damaged" in done.stderr
    assert "resuming at step 6 of 9" in done.stderr
    for name, array in saved_arrays(workdir, 9).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
