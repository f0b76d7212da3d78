"""What each worker may use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attention.errors import UserError
from attention.sweeping import devices
from attention.training.host_memory import host_memory

CPU = {"JAX_PLATFORMS": "cpu"}


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_cores", lambda: list(range(8)))
    monkeypatch.setattr(devices, "_gpus", lambda: [])
    monkeypatch.setattr(devices, "_tpu_chips", lambda: [])


@pytest.mark.fast
@pytest.mark.usefixtures("eight_cores")
def test_cores_are_divided_and_shared_only_where_there_are_too_few() -> None:
    three = [share.cores for share in devices.shares(3, CPU)]
    assert sorted(sum(three, ())) == list(range(8)) and {len(each) for each in three} == {2, 3}
    assert [share.cores for share in devices.shares(10, CPU)][-2:] == [(0,), (1,)]
    assert devices.shares(1, CPU) == [devices.Share(tuple(range(8)), {})]
    environment = {"OMP_NUM_THREADS": "4", "ATTENTION_LAB_WORKERS": "2"}
    assert devices.shares(2, CPU)[0].environment == environment


@pytest.mark.fast
@pytest.mark.usefixtures("eight_cores")
def test_workers_share_out_the_memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = host_memory()
    for name, value in devices.shares(3, CPU)[0].environment.items():
        monkeypatch.setenv(name, value)
    assert host_memory() == whole // 3 > 0


@pytest.mark.fast
@pytest.mark.usefixtures("eight_cores")
def test_each_worker_has_its_own_gpus_or_a_part_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_gpus", lambda: ["0", "1", "2", "3"])

    def visible(workers: int, environment: dict) -> list[str]:
        found = devices.shares(workers, environment)
        return [share.environment["CUDA_VISIBLE_DEVICES"] for share in found]

    assert visible(4, {}) == ["0", "1", "2", "3"]
    assert visible(2, {}) == ["0,1", "2,3"]
    assert visible(2, {"CUDA_VISIBLE_DEVICES": "5,7"}) == ["5", "7"]
    assert "CUDA_VISIBLE_DEVICES" not in devices.shares(2, CPU)[0].environment
    shared = devices.shares(8, {})
    assert [share.environment["CUDA_VISIBLE_DEVICES"] for share in shared] == list("01230123")
    assert {share.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] for share in shared} == {"0.450"}
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in devices.shares(4, {})[0].environment


@pytest.mark.fast
@pytest.mark.usefixtures("eight_cores")
def test_a_tpu_chip_is_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_tpu_chips", lambda: ["0", "1", "2", "3"])
    two = [share.environment for share in devices.shares(2, {})]
    assert [each["TPU_VISIBLE_CHIPS"] for each in two] == ["0,1", "2,3"]
    assert {each["TPU_CHIPS_PER_PROCESS_BOUNDS"] for each in two} == {"1,2,1"}
    with pytest.raises(UserError, match=r"--workers=5, but a TPU chip serves one process.* has 4"):
        devices.shares(5, {})


THREADS = """
import os, sys
from attention.sweeping.devices import use_cores
use_cores([int(core) for core in sys.argv[1].split()])
import jax
x = jax.random.normal(jax.random.key(0), (600, 600))
jax.block_until_ready(jax.jit(lambda x: x @ x)(x))
names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print(sum("XLAEigen" in name or "XLATfrtCpuClie" in name for name in names))
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores of a Linux machine",
)
def test_xla_makes_as_many_threads_as_a_worker_has_cores() -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]

    def threads(own: list[int]) -> int:
        done = subprocess.run(
            [sys.executable, "-c", THREADS, " ".join(map(str, own))],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    assert 0 < threads(cores[:1]) < threads(cores)
