"""Damaged checkpoints are passed over and kept; a killed run goes on from the newest whole one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from support.checkpoints import assert_equal, make_state, save_steps

from attention.errors import UserError
from attention.training import checkpoint as checkpoint_module
from attention.training.checkpoint import Checkpoints


def content(directory: Path) -> dict[str, tuple[int, int]]:
    """Every path below a directory with its size and time of change."""
    stats = {path: path.stat() for path in directory.rglob("*")}
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def damage(path: Path, how: str) -> None:
    if how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "gone":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "gone", "one bit flipped"])
def test_a_newest_checkpoint_with_any_file_damaged_is_passed_over(tmp_path, caplog, how):
    original = tmp_path / "original"
    save_steps(original, 90, 100, best_step=90)
    names = [p.relative_to(original) for p in (original / "100").rglob("*") if p.is_file()]
    # Orbax rewrites these after the seal; the checkpoint reads the same without them.
    harmless = {Path("100/_CHECKPOINT_METADATA"), Path("100/commit_success.txt")}
    assert len(names) > 8 and harmless <= set(names)
    for number, name in enumerate(names):
        directory = tmp_path / str(number)
        shutil.copytree(original, directory)
        damage(directory / name, how)
        caplog.clear()
        with Checkpoints(directory) as checkpoints:
            restored = checkpoints.restore(make_state(0))
            expected = 100 if name in harmless else 90
            assert restored.step == expected, name
            assert_equal(restored.state, make_state(expected))
            checkpoints.save(100, make_state(3), {})
            checkpoints.wait()
            saved = 100 if name in harmless else 3
            assert_equal(checkpoints.restore(make_state(0), 100).state, make_state(saved))
        if name not in harmless:
            assert str(directory / "100") in caplog.text and "step 90" in caplog.text, name
            assert (directory / "100.broken").is_dir(), name


def test_reading_only_changes_nothing_and_passes_over_damage_too(tmp_path, caplog):
    save_steps(tmp_path, 90, 100, best_step=90)
    (tmp_path / "deleted" / "80").mkdir(parents=True)
    (tmp_path / "110.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "110").mkdir()
    damage(tmp_path / "100" / "state" / "manifest.ocdbt", "cut")
    before = content(tmp_path)
    with Checkpoints(tmp_path, read_only=True) as checkpoints:
        assert checkpoints.steps() == [90]
        assert checkpoints.restore(make_state(0)).step == 90
        assert checkpoints.restore(make_state(0), "latest").step == 90
        with pytest.raises(UserError, match="100 is damaged"):
            checkpoints.restore(make_state(0), 100)
        with pytest.raises(ValueError, match="read_only"):
            checkpoints.save(120, make_state(120), {})
    assert content(tmp_path) == before
    assert str(tmp_path / "110") in caplog.text and "using step 90" in caplog.text


def test_an_empty_newest_folder_and_foreign_names_do_not_stop_a_run(tmp_path, caplog):
    save_steps(tmp_path, 900)
    shutil.copytree(tmp_path / "900", tmp_path / "1000")
    shutil.copytree(tmp_path / "900", tmp_path / "10000")
    for name in ("notes", "0900", "1e5", "-3", "step_20000", "20000.orbax-checkpoint-tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "readme.txt").write_text("mine")
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.steps() == [900, 1000, 10000]
        assert checkpoints.restore(make_state(0)).step == 10000
    assert not caplog.records
    (tmp_path / "10010").mkdir()
    (tmp_path / "10020").write_text("a file, not a folder")
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.restore(make_state(0)).step == 10000
        checkpoints.save(10010, make_state(10010), {})
    assert "10010 is damaged (seal.json is missing)" in caplog.text
    assert "10020 is damaged (it is not a folder)" in caplog.text
    left = set(os.listdir(tmp_path))
    assert {"10010", "10010.broken", "10020.broken", "notes", "0900", "readme.txt"} <= left


@pytest.mark.fast
def test_a_damaged_step_does_not_count_as_saved(tmp_path):
    save_steps(tmp_path, 10)
    (tmp_path / "20").mkdir()
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.save(20, make_state(20), {})
    with Checkpoints(tmp_path) as checkpoints:
        assert_equal(checkpoints.restore(make_state(0)).state, make_state(20))


@pytest.mark.fast
def test_a_damaged_step_is_moved_aside_as_often_as_needed(tmp_path):
    for _ in range(3):
        (tmp_path / "5").mkdir()
        with Checkpoints(tmp_path) as checkpoints:
            assert checkpoints.restore(make_state(0)) is None
    assert sorted(os.listdir(tmp_path)) == ["5.broken", "5.broken-2", "5.broken-3"]


@pytest.mark.fast
def test_a_lost_best_checkpoint_is_told(tmp_path, caplog):
    save_steps(tmp_path, 90, 100, best_step=90)
    damage(tmp_path / "90" / "state" / "_METADATA", "gone")
    with Checkpoints(tmp_path, best=lambda steps: 90, read_only=True) as checkpoints:
        assert checkpoints.restore(make_state(0), "best").step == 100
    assert str(tmp_path / "90") in caplog.text and "using step 100" in caplog.text


@pytest.mark.fast
def test_a_checkpoint_deleted_while_it_is_read_is_passed_over(tmp_path, monkeypatch, caplog):
    save_steps(tmp_path, 90, 100, best_step=90)
    read = Checkpoints._read

    def slow(self, step, abstract_state):
        if step == 100:
            shutil.rmtree(tmp_path / "100")
        return read(self, step, abstract_state)

    monkeypatch.setattr(Checkpoints, "_read", slow)
    with Checkpoints(tmp_path, read_only=True) as checkpoints:
        assert checkpoints.restore(make_state(0)).step == 90
    assert str(tmp_path / "100") in caplog.text


@pytest.mark.fast
def test_a_deletion_cut_short_is_finished_by_the_next_run(tmp_path):
    save_steps(tmp_path, 10)
    (tmp_path / "deleted" / "5" / "state").mkdir(parents=True)
    Checkpoints(tmp_path).close()
    assert os.listdir(tmp_path) == ["10"]


@pytest.mark.fast
def test_a_save_that_fails_in_the_background_fails_the_run_and_costs_nothing(tmp_path, monkeypatch):
    save_steps(tmp_path, 10)

    def full(*_, **__):
        raise OSError("disk full")

    with Checkpoints(tmp_path) as checkpoints:
        monkeypatch.setattr(checkpoint_module, "seal", full)
        checkpoints.save(20, make_state(20), {}, best_step=20)
        with pytest.raises(OSError, match="disk full"):
            checkpoints.wait()
        checkpoints.save(30, make_state(30), {})
        with pytest.raises(OSError, match="disk full"):
            checkpoints.save(40, make_state(40), {})
    monkeypatch.undo()
    with Checkpoints(tmp_path) as checkpoints:
        assert_equal(checkpoints.restore(make_state(0)).state, make_state(10))


_SAVING_FOREVER = """
    import sys, jax.numpy as jnp, numpy as np
    from attention.training.checkpoint import Checkpoints
    noise = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    make = lambda step: {"noise": jnp.asarray(noise + step), "step": jnp.asarray(step)}
    checkpoints = Checkpoints(sys.argv[1])
    restored = checkpoints.restore(make(0))
    step = restored.step if restored else 0
    if restored:
        assert restored.data_state == {"step": step, "best": step // 3 * 3}
        np.testing.assert_array_equal(restored.state["noise"], make(step)["noise"])
        assert int(restored.state["step"]) == step
        best = step // 3 * 3
        assert best in (0, *checkpoints.steps()), (best, checkpoints.steps())
    print("start", step, flush=True)
    while True:
        step += 1
        best = step // 3 * 3  # every third step is better than all before
        state = {"step": step, "best": best}
        checkpoints.save(step, make(step), state, best_step=best)
        if step % 2:
            checkpoints.wait()
            print("whole", step, flush=True)
"""


def test_a_run_killed_at_any_moment_goes_on_from_its_newest_whole_checkpoint(tmp_path):
    moments = random.Random(0)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(_SAVING_FOREVER), str(tmp_path / "run")]
    whole = 0
    for _ in range(6):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline().split()
        assert line and line[0] == "start", process.stderr.read()
        assert int(line[1]) >= whole
        time.sleep(moments.uniform(0.0, 0.6))
        process.kill()
        said = [row.split() for row in process.stdout.read().splitlines()]
        process.wait()
        whole = max([whole, int(line[1]), *(int(step) for word, step in said if word == "whole")])
    assert whole > 6
    broken = [name for name in os.listdir(tmp_path / "run") if "broken" in name]
    assert not broken, "sealing and renaming make a checkpoint appear whole or not at all"
