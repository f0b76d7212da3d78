"""A process that takes trials of a sweep, one after the other, until there is none left."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from attention.sweeping.devices import use_cores
from attention.sweeping.grouping import Groups
from attention.sweeping.running import TRAINER, run_group
from attention.sweeping.setting import Scene, Setting, open_scene

MOST_MEMORY = 4 << 30  # above it, what earlier programs have left is freed


def work() -> int:
    """Runs a worker; returns its exit status: 0, or 130 after an interruption.

    stdin holds two lines, the cores to use and the setting, and stays open as long as the command
    that has started the worker lives. Once it is gone, the worker stops as after Ctrl-C.
    """
    cores, setting = sys.stdin.readline(), Setting.from_json(sys.stdin.readline())
    use_cores([int(core) for core in cores.split()])
    threading.Thread(target=_stop_at_the_end_of_input, daemon=True).start()
    try:
        return 0 if take_trials(open_scene(setting), setting) else 130
    except KeyboardInterrupt:
        return 130


def take_trials(scene: Scene, setting: Setting) -> bool:
    """Runs trials until none is left; returns False where it was interrupted."""
    shared = _shared() if setting.train == TRAINER else None
    groups = Groups(scene, vectorize=setting.vectorize, shared=shared)
    while jobs := groups.next():
        outcomes = run_group(jobs, train=setting.train, shared=shared)
        groups.learn(jobs, outcomes)
        scene.board.settle({job.trial.name: scene.standings.of(job.trial) for job in jobs})
        if any(outcome.status == "interrupted" for outcome in outcomes):
            return False
    return True


def _shared() -> Any:
    from attention.training.shared import Shared

    return Shared(forgotten=free_programs)


def _stop_at_the_end_of_input() -> None:
    # Not sys.stdin, whose lock a thread must not hold when Python ends.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def free_programs() -> None:
    """Frees what earlier programs have left, where it has become much.

    Only when another begins: trials of one program never compile it, or encode its data, anew.
    """
    if "jax" in sys.modules and _memory_in_use() > MOST_MEMORY:
        sys.modules["jax"].clear_caches()
        gc.collect()


def _memory_in_use() -> int:
    """Bytes that this process holds; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
