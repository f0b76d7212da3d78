"""Checkpoints: latest and best kept, restored bit for bit onto the devices at hand."""

from __future__ import annotations

import logging
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.checkpoints import State, assert_equal, make_state, run_python, save_steps

from attention.errors import UserError
from attention.training import checkpoint as checkpoint_module
from attention.training.checkpoint import Checkpoints


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
def test_what_changes_after_a_save_began_is_not_in_it(tmp_path):
    sums = {"loss": [1.0, 2.0]}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make_state(1), {"window": {"sums": sums}})
        sums["loss"], sums["accuracy"] = [9.0, 9.0], [9.0, 9.0]
        restored = checkpoints.restore(make_state(1))
    assert restored.data_state == {"window": {"sums": {"loss": [1.0, 2.0]}}}


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


@pytest.mark.fast
def test_a_state_that_does_not_fit_is_an_error_not_a_damaged_checkpoint(tmp_path):
    save_steps(tmp_path, 5)
    with Checkpoints(tmp_path) as checkpoints, pytest.raises(UserError) as caught:
        checkpoints.restore({"something": jnp.ones(2)})
    assert str(tmp_path / "5") in str(caught.value) and "does not fit" in str(caught.value)
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
            shapes = jax.eval_shape(lambda: state)  # these say nothing of devices
            for leaf in jax.tree.leaves(checkpoints.restore(shapes).state):
                assert leaf.devices() == {jax.devices()[0]}
    print(jax.device_count())
"""


def test_saved_on_four_devices_restored_on_one_two_and_four(tmp_path):
    assert run_python(_SHARDED, "save", tmp_path, devices=4) == "4\n"
    for devices in (1, 2, 4):
        assert run_python(_SHARDED, "restore", tmp_path, devices=devices) == f"{devices}\n"
