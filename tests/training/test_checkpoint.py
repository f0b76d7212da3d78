"""Checkpoints: whole or passed over, latest and best kept, restored onto the devices at hand."""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from attention.errors import UserError
from attention.training import checkpoint as checkpoint_module
from attention.training.checkpoint import Checkpoints


class State(NamedTuple):
    step: Any
    params: Any
    optimizer: Any


_OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


def make_state(step: int) -> State:
    """A small state, different in every number at every step."""
    params = nnx.state(nnx.Linear(3, 5, rngs=nnx.Rngs(step)), nnx.Param)
    optimizer = jax.tree.map(lambda x: x + step, _OPTIMIZER.init(params))
    return State(jnp.asarray(step, jnp.int32), params, optimizer)


def assert_equal(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def save_steps(directory: Path, *steps: int, best_step: int | None = None) -> None:
    with Checkpoints(directory) as checkpoints:
        for step in steps:
            checkpoints.save(step, make_state(step), {"step": step}, best_step=best_step)


def content(directory: Path) -> dict[str, tuple[int, int]]:
    """Every path below a directory with its size and time of change."""
    stats = {path: path.stat() for path in directory.rglob("*")}
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def run_python(source: str, *arguments: Any, devices: int = 1) -> str:
    """Runs a script in a new process; returns what it printed."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.fast
@pytest.mark.parametrize("abstract", [lambda s: s, lambda s: jax.eval_shape(lambda: s)])
def test_a_state_comes_back_the_same_to_the_last_bit_and_type(tmp_path, abstract):
    state = {
        "train": make_state(7),
        "half": jnp.asarray([0.1, -0.0, jnp.nan, jnp.inf, 1e-39], jnp.bfloat16),
        "tuple": (jnp.arange(3), None, (jnp.ones(()),)),
        "key": jax.random.key_data(jax.random.key(3)),
    }
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(7, state, {"iterator": [1, {"a": 0.1}], "none": None})
        restored = checkpoints.restore(abstract(state))
    assert restored.step == 7
    assert restored.data_state == {"iterator": [1, {"a": 0.1}], "none": None}
    assert_equal(restored.state, state)
    assert isinstance(restored.state["train"], State)


@pytest.mark.fast
def test_a_restored_state_needs_no_new_compilation(tmp_path):
    step = jax.jit(lambda state: jax.tree.map(lambda x: x * 2, state))
    # Placed, as a run's state is: jit tells arrays on a chosen device from others.
    state = step(jax.device_put(make_state(1), jax.devices()[0]))
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state, {})
        restored = checkpoints.restore(state)
    step(state)
    programs = step._cache_size()
    step(restored.state)
    assert step._cache_size() == programs


@pytest.mark.fast
def test_latest_and_best_are_kept_and_nothing_else(tmp_path):
    with Checkpoints(tmp_path, best=lambda steps: 20 if 20 in steps else None) as checkpoints:
        for step, best in ((10, 10), (20, 20), (30, 20), (40, 20)):
            checkpoints.save(step, make_state(step), {}, best_step=best)
        checkpoints.wait()
        assert sorted(os.listdir(tmp_path)) == ["20", "40"]
        assert checkpoints.steps() == [20, 40]
        assert checkpoints.restore(make_state(0), "best").step == 20
        assert checkpoints.restore(make_state(0), "latest").step == 40
        assert_equal(checkpoints.restore(make_state(0), 20).state, make_state(20))


@pytest.mark.fast
def test_saving_a_step_twice_is_no_error_and_a_lower_one_is(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.save(20, make_state(20), {})
        assert not checkpoints.save(20, make_state(21), {})
    with Checkpoints(tmp_path) as checkpoints:
        assert not checkpoints.save(20, make_state(21), {})
        assert_equal(checkpoints.restore(make_state(0)).state, make_state(20))
        with pytest.raises(ValueError, match="step=10 is lower than step 20"):
            checkpoints.save(10, make_state(10), {})


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


@pytest.mark.fast
def test_an_old_checkpoint_goes_only_after_the_new_one_is_whole(tmp_path, monkeypatch):
    save_steps(tmp_path, 10)
    seen = []
    seal = checkpoint_module.seal

    def look(folder, **options):
        seal(folder, **options)
        seen.append((sorted(os.listdir(tmp_path)), folder.name))

    monkeypatch.setattr(checkpoint_module, "seal", look)
    save_steps(tmp_path, 20)
    # Sealed under the temporary name, while the old one is still there.
    assert len(seen) == 1
    assert "10" in seen[0][0] and "20" not in seen[0][0]
    assert os.listdir(tmp_path) == ["20"]


@pytest.mark.fast
def test_what_is_saved_is_what_the_state_was_when_save_returned(tmp_path):
    change = jax.jit(lambda x: x * 0.0 - 1.0, donate_argnums=0)
    array = jnp.asarray(np.random.default_rng(0).standard_normal((1024, 1024)), jnp.float32)
    expected = np.array(array, copy=True)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": array}, {})
        for _ in range(5):
            array = change(array)
        restored = checkpoints.restore({"x": array})
    np.testing.assert_array_equal(np.asarray(restored.state["x"]), expected)


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
def test_a_state_that_does_not_fit_is_an_error_not_a_damaged_checkpoint(tmp_path):
    save_steps(tmp_path, 5)
    with Checkpoints(tmp_path) as checkpoints, pytest.raises(Exception) as caught:
        checkpoints.restore({"something": jnp.ones(2)})
    assert str(tmp_path / "5") in "".join(caught.value.__notes__)
    assert os.listdir(tmp_path) == ["5"]


@pytest.mark.fast
def test_a_step_that_is_not_there_lists_those_that_are(tmp_path):
    save_steps(tmp_path, 90, 100, best_step=90)
    with Checkpoints(tmp_path, best=lambda steps: 90, read_only=True) as checkpoints:
        with pytest.raises(UserError, match=r"step 7; .*90 \(best\), 100"):
            checkpoints.restore(make_state(0), 7)
        with pytest.raises(UserError, match=r"'newest': name best, latest or a step; .*90"):
            checkpoints.restore(make_state(0), "newest")
        assert checkpoints.restore(make_state(0), "90").step == 90


@pytest.mark.fast
def test_no_checkpoint_at_all(tmp_path):
    with Checkpoints(tmp_path / "none", read_only=True) as checkpoints:
        assert checkpoints.steps() == []
        assert checkpoints.restore(make_state(0)) is None
        with pytest.raises(UserError, match="no whole checkpoint in"):
            checkpoints.restore(make_state(0), "best")
        with pytest.raises(UserError, match=r"step 3; .* no whole checkpoint"):
            checkpoints.restore(make_state(0), 3)
    assert not (tmp_path / "none").exists()


@pytest.mark.fast
@pytest.mark.parametrize("directory", ["runs/x", "~/runs/x"])
def test_a_relative_path_means_where_the_program_was_started(tmp_path, monkeypatch, directory):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with Checkpoints(directory) as checkpoints:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        checkpoints.save(1, make_state(1), {})
    assert (tmp_path / "runs" / "x" / "1" / "seal.json").is_file()


@pytest.mark.fast
def test_a_deletion_cut_short_is_finished_by_the_next_run(tmp_path):
    save_steps(tmp_path, 10)
    (tmp_path / "deleted" / "5" / "state").mkdir(parents=True)
    Checkpoints(tmp_path).close()
    assert os.listdir(tmp_path) == ["10"]


@pytest.mark.fast
def test_orbax_alone_reads_our_checkpoints(tmp_path):
    import orbax.checkpoint as ocp

    save_steps(tmp_path, 10)
    with ocp.CheckpointManager(tmp_path) as manager:
        items = ocp.args.Composite(state=ocp.args.StandardRestore(make_state(0)))
        assert_equal(manager.restore(10, args=items)["state"], make_state(10))


@pytest.mark.fast
def test_nothing_is_logged_when_all_is_well(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        save_steps(tmp_path, 1, 2)
        with Checkpoints(tmp_path, read_only=True) as checkpoints:
            checkpoints.restore(make_state(0))
    assert not caplog.records


_SHARDED = """
    import sys, jax, numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from attention.training.checkpoint import Checkpoints
    do, directory = sys.argv[1:]
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    sharding = {"all": NamedSharding(mesh, P()), "rows": NamedSharding(mesh, P("data"))}
    state = jax.device_put({name: np.arange(24.0).reshape(8, 3) for name in sharding}, sharding)
    with Checkpoints(directory) as checkpoints:
        if do == "save":
            checkpoints.save(1, state, {})
        else:
            other = jax.tree.map(lambda x: x * 0, state)
            restored = checkpoints.restore(other).state
            for name in sharding:
                assert restored[name].sharding == sharding[name], restored[name].sharding
                np.testing.assert_array_equal(restored[name], state[name])
    print(jax.device_count())
"""


def test_saved_on_four_devices_restored_on_one_two_and_four(tmp_path):
    assert run_python(_SHARDED, "save", tmp_path, devices=4) == "4\n"
    for devices in (1, 2, 4):
        assert run_python(_SHARDED, "restore", tmp_path, devices=devices) == f"{devices}\n"


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
