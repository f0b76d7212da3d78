"""Eight devices give what one gives, under jit and under pmap."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support.runs import REPOSITORY, environ, flags, run, small_overrides

from attention.tools.evaluating import evaluate

NO_DROPOUT = "model.dropout_rate=0.0,model.word_dropout_rate=0.0"
# Eight rows of 32 positions; the last batch of the run is a part of an epoch.
COMMON = "train_steps=6,eval_every_steps=3"
ACCUMULATED = "batch_tokens=512,optimizer.accumulation_steps=2"


def train(folder, devices: int, *specs: str) -> dict:
    script = REPOSITORY / "tests" / "support" / "train_variants.py"
    path = f"{REPOSITORY}:{REPOSITORY / 'tests'}"
    done = subprocess.run(
        [sys.executable, str(script), str(folder), *(f"{spec},{COMMON}" for spec in specs)],
        env=environ(devices=devices, PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("devices")


@pytest.fixture(scope="module")
def on_one(folder):
    return train(
        folder / "one",
        1,
        f"plain:{NO_DROPOUT}",
        "dropout:model.dropout_rate=0.3",
        f"wide:{NO_DROPOUT},batch_tokens=512",
    )


@pytest.fixture(scope="module")
def on_eight(folder):
    return train(
        folder / "eight",
        8,
        f"plain:{NO_DROPOUT}",
        "dropout:model.dropout_rate=0.3",
        f"pmap:{NO_DROPOUT},parallelism=pmap",
        f"accumulated:{NO_DROPOUT},{ACCUMULATED}",
        f"accumulated_pmap:{NO_DROPOUT},{ACCUMULATED},parallelism=pmap",
    )


@pytest.mark.parametrize("name", ["plain", "dropout"])
def test_jit_over_eight_devices_gives_the_losses_of_one(on_one, on_eight, name):
    assert on_eight[name]["num_devices"] == 8 and on_one[name]["num_devices"] == 1
    np.testing.assert_allclose(on_eight[name]["losses"], on_one[name]["losses"], atol=1e-5)
    assert on_eight[name]["eval"]["accuracy"] == on_one[name]["eval"]["accuracy"]


def test_dropout_changes_the_losses(on_one):
    assert abs(on_one["plain"]["losses"][0] - on_one["dropout"]["losses"][0]) > 1e-4


def test_pmap_over_eight_devices_gives_the_losses_of_one(on_one, on_eight):
    np.testing.assert_allclose(on_eight["pmap"]["losses"], on_one["plain"]["losses"], atol=1e-5)
    np.testing.assert_allclose(
        [on_eight["pmap"]["eval"]["loss"], on_eight["pmap"]["test"]["loss"]],
        [on_one["plain"]["eval"]["loss"], on_one["plain"]["test"]["loss"]],
        atol=1e-5,
    )


@pytest.mark.parametrize("name", ["plain", "pmap"])
def test_flops_are_those_of_the_run_and_not_of_the_devices(on_one, on_eight, name):
    assert on_eight[name]["flops"] == on_one["plain"]["flops"] > 0
    assert on_eight["accumulated"]["flops"] == on_eight["accumulated_pmap"]["flops"]


@pytest.mark.parametrize("name", ["accumulated", "accumulated_pmap"])
def test_accumulated_over_eight_devices_is_the_whole_batch_on_one(on_one, on_eight, name):
    """Sixteen rows at once, or one a device, twice: the same batches, so the same run."""
    assert on_eight[name]["num_devices"] == 8
    np.testing.assert_allclose(on_eight[name]["losses"], on_one["wide"]["losses"], atol=1e-5)
    np.testing.assert_allclose(
        [on_eight[name]["eval"]["loss"], on_eight[name]["test"]["loss"]],
        [on_one["wide"]["eval"]["loss"], on_one["wide"]["test"]["loss"]],
        atol=1e-5,
    )


@pytest.mark.parametrize("name", ["plain", "pmap"])
def test_a_run_of_eight_devices_is_evaluated_on_one(folder, on_eight, name):
    again = evaluate(str(folder / "eight" / name), split="dev")
    assert again["accuracy"] == on_eight[name]["eval"]["accuracy"]
    np.testing.assert_allclose(again["loss"], on_eight[name]["eval"]["loss"], atol=1e-5)


@pytest.mark.usefixtures("on_eight")
def test_a_run_goes_on_with_other_devices_and_another_parallelism(folder):
    # The same directory on one device: raised steps, jit in place of pmap.
    overrides = small_overrides(folder / "eight" / "data") | {
        "model.dropout_rate": 0.0,
        "model.word_dropout_rate": 0.0,
        "train_steps": 8,
        "eval_every_steps": 3,
    }
    workdir = folder / "eight" / "pmap"
    spec = "configs/pos_tagging.py:dataset=files,size=tiny"
    done = run("train.py", f"--config={spec}", f"--workdir={workdir}", *flags(overrides))
    assert done.returncode == 0, done.stderr
    assert "resuming at step 6 of 8" in done.stderr and "schedule" in done.stderr


def test_rows_that_do_not_divide_are_refused_with_both_numbers(tmp_path):
    overrides = small_overrides(tmp_path / "data") | {"batch_tokens": None, "batch_size": 6}
    spec = "configs/pos_tagging.py:dataset=files,size=tiny"
    done = run(
        "train.py", f"--config={spec}", f"--workdir={tmp_path}/run", *flags(overrides), devices=4
    )
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert "6" in line and "4 devices" in line and "batch_size" in line
