"""The most memory that a run uses, told apart from what its process did before."""

from __future__ import annotations

import gc
import resource
import sys
import threading
from pathlib import Path

import jax

from attention.training.allocator import give_back_freed_memory

_PROCESS = Path("/proc/self")
_FORGET_THE_PEAK = "5"  # Linux, proc_pid_clear_refs(5)


class PeakMemory:
    """The most bytes used since `begin`, which runs that train at once share.

    Where devices keep count (GPU, TPU): on the fullest of this process's. Else of the whole
    process, with what it held when the run began, such as data and compiled programs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: int | None = None

    def begin(self) -> None:
        """Counts from here; only the first call does anything."""
        with self._lock:
            if self._before is None:
                self._before = 0 if _forget_the_peak() else peak_memory_bytes()

    @property
    def bytes(self) -> int | None:
        """None where the peak of this process is older, which hides that of the run."""
        assert self._before is not None
        now = peak_memory_bytes()
        return now if now > self._before else None


def peak_memory_bytes() -> int:
    """Returns the most bytes used so far: on the fullest of this process's devices where devices
    keep count (GPU, TPU), else by the whole process (CPU: its largest resident size)."""
    counted = _counted_by_devices()
    return max(counted) if counted else _peak_resident_bytes()


def _counted_by_devices() -> list[int]:
    statistics = [device.memory_stats() or {} for device in jax.local_devices()]
    return [one["peak_bytes_in_use"] for one in statistics if "peak_bytes_in_use" in one]


def _forget_the_peak() -> bool:
    """Sets the peak to what is used now; returns False where that cannot be: JAX has no way to do
    it on devices, and other systems than Linux none for a process."""
    if _counted_by_devices():
        return False
    # Freed memory that the process keeps is resident, and would count as used.
    gc.collect()
    give_back_freed_memory()
    try:
        (_PROCESS / "clear_refs").write_text(_FORGET_THE_PEAK)
    except OSError:
        return False
    return True


def _peak_resident_bytes() -> int:
    # Linux: ru_maxrss would include the size of the process that started this one.
    status = _PROCESS / "status"
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
