"""The memory of a run, and not of what its process did before."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from support.runs import REPOSITORY, metrics_rows, small_config

from attention.training import loop, memory
from attention.training.vectorize import train_together

MIB = 1 << 20
clears = pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak cannot be reset here"
)


class Device:
    """Keeps count as a GPU does."""

    def __init__(self, used):
        self.used = used

    def memory_stats(self):
        return {"peak_bytes_in_use": self.used, "bytes_in_use": 1}


@pytest.fixture
def devices(monkeypatch):
    found = [Device(5), Device(7)]
    monkeypatch.setattr(memory.jax, "local_devices", lambda: found)
    return found


def hold_and_free(size):
    held = np.ones(size // 8)
    del held


@pytest.mark.fast
@pytest.mark.long
def test_peak_memory_grows_with_what_is_held_and_never_shrinks():
    before = memory.peak_memory_bytes()
    hold_and_free(before + 64 * MIB)
    assert memory.peak_memory_bytes() >= before + 32 * MIB


@pytest.mark.fast
def test_peak_memory_of_devices_that_count_is_that_of_the_fullest(devices):
    assert memory.peak_memory_bytes() == 7


@pytest.mark.fast
@clears
def test_what_was_held_before_is_forgotten():
    hold_and_free(256 * MIB)
    before = memory.peak_memory_bytes()
    peak = memory.PeakMemory()
    peak.begin()
    assert peak.bytes < before - 128 * MIB
    low = peak.bytes
    hold_and_free(128 * MIB)
    peak.begin()  # another run that trains at once
    assert peak.bytes > low + 96 * MIB


KEPT = """
import numpy as np
from attention.training import memory
from attention.training.allocator import keep_freed_memory
keep_freed_memory()
held = np.ones(256 << 17)
del held
before, peak = memory.peak_memory_bytes(), memory.PeakMemory()
peak.begin()
print(before - peak.bytes)
"""


@pytest.mark.fast
@clears
def test_freed_memory_that_the_process_keeps_is_not_counted():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    words = [sys.executable, "-c", KEPT]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, cwd=REPOSITORY, env=environment
    )
    assert int(done.stdout) > 192 * MIB


@pytest.mark.fast
def test_a_counter_that_cannot_be_reset_tells_only_what_a_run_has_raised(devices):
    peak = memory.PeakMemory()
    peak.begin()
    assert peak.bytes is None
    devices[0].used = 6
    assert peak.bytes is None  # another device's is higher still
    devices[0].used = 9
    assert peak.bytes == 9


@pytest.mark.fast
def test_a_system_that_does_not_allow_it_counts_as_such_a_counter(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_PROCESS", tmp_path)
    (tmp_path / "clear_refs").mkdir()
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t     300 kB\n")
    peak = memory.PeakMemory()
    peak.begin()
    assert peak.bytes is None
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t     301 kB\n")
    assert peak.bytes == 301 * 1024


@clears
def test_a_run_reports_its_own_memory(tmp_path):
    hold_and_free(1024 * MIB)
    before = memory.peak_memory_bytes()
    result = loop.train(small_config(tmp_path / "data", train_steps=2), str(tmp_path / "run"))
    assert 0 < result["peak_memory_bytes"] < before - 256 * MIB


def test_a_run_whose_memory_is_not_known_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_counted_by_devices", lambda: [7])
    result = loop.train(small_config(tmp_path / "data", train_steps=2), str(tmp_path / "run"))
    assert result["peak_memory_bytes"] is None
    rows = metrics_rows(tmp_path / "run")
    assert rows and not any("time/peak_memory_bytes" in row for row in rows)


def test_runs_at_once_share_a_number(tmp_path, monkeypatch):
    counters = iter([[7], [7]])  # is it reset, and what has it been: asked once for both
    monkeypatch.setattr(memory, "_counted_by_devices", lambda: next(counters, [9]))
    configs = [small_config(tmp_path / "data", train_steps=2, data__order_seed=5, seed=seed)
               for seed in (0, 1)]  # fmt: skip
    outcomes = train_together(configs, [str(tmp_path / name) for name in "ab"])
    assert [each.error for each in outcomes] == [None, None]
    assert [each.result["peak_memory_bytes"] for each in outcomes] == [9, 9]
