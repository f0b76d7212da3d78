"""What each of several workers on one machine may use: its cores, its accelerators."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from attention.errors import UserError
from attention.training.host_memory import WORKERS

_MEMORY = 0.9  # of a GPU that several workers share


class Share(NamedTuple):
    """The part of one worker: numbers of cores, and environment variables."""

    cores: tuple[int, ...]
    environment: dict[str, str]


def shares(workers: int, environment: Mapping[str, str] = os.environ) -> list[Share]:
    """Divides this machine among so many workers; one worker gets all of it.

    XLA makes as many threads as the process may use cores, so the cores limit them. With several
    GPUs or TPU chips each worker sees its own; with fewer GPUs than workers several share one.

    Raises:
      UserError: more workers than TPU chips, which cannot be shared.
    """
    cores = _cores()
    if workers == 1:
        return [Share(tuple(cores), {})]
    own = [_part(cores, worker, workers) for worker in range(workers)]
    accelerators = _accelerators(workers, environment)
    return [
        Share(part, {"OMP_NUM_THREADS": str(len(part)), WORKERS: str(workers), **accelerator})
        for part, accelerator in zip(own, accelerators, strict=True)
    ]


def use_cores(cores: Sequence[int]) -> None:
    """Keeps this process, and the threads it will start, on some cores."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _part(all_: Sequence[int], worker: int, workers: int) -> tuple[int, ...]:
    """The worker's own ones; where there are too few, one that it shares."""
    if len(all_) < workers:
        return (all_[worker % len(all_)],)
    return tuple(all_[len(all_) * worker // workers : len(all_) * (worker + 1) // workers])


def _accelerators(workers: int, environment: Mapping[str, str]) -> list[dict[str, str]]:
    platforms = environment.get("JAX_PLATFORMS", "")
    if platforms.startswith("cpu"):
        return [{}] * workers
    if chips := _visible("TPU_VISIBLE_CHIPS", _tpu_chips(), environment):
        if workers > len(chips):
            raise UserError(
                f"--workers={workers}, but a TPU chip serves one process and this host has "
                f"{len(chips)}: lower it, or set JAX_PLATFORMS=cpu"
            )
        return [_tpu(_part(range(len(chips)), i, workers), chips) for i in range(workers)]
    if gpus := _visible("CUDA_VISIBLE_DEVICES", _gpus(), environment):
        return [_gpu(i, workers, gpus) for i in range(workers)]
    return [{}] * workers


def _visible(variable: str, all_: list[str], environment: Mapping[str, str]) -> list[str]:
    """The devices that the user has left to this process."""
    if variable in environment:
        return [name for name in environment[variable].split(",") if name.strip()]
    return all_


def _gpus() -> list[str]:
    found = Path("/proc/driver/nvidia/gpus")
    return [str(i) for i in range(len(list(found.iterdir())))] if found.is_dir() else []


def _tpu_chips() -> list[str]:
    chips = [*Path("/dev").glob("accel[0-9]*"), *Path("/dev/vfio").glob("[0-9]*")]
    return [str(i) for i in range(len(chips))]


def _gpu(worker: int, workers: int, gpus: list[str]) -> dict[str, str]:
    own = _part(range(len(gpus)), worker, workers)
    names = {"CUDA_VISIBLE_DEVICES": ",".join(gpus[i] for i in own)}
    if workers <= len(gpus):
        return names
    beside = -(-workers // len(gpus))
    return {**names, "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{_MEMORY / beside:.3f}"}


def _tpu(own: tuple[int, ...], chips: list[str]) -> dict[str, str]:
    return {
        "TPU_VISIBLE_CHIPS": ",".join(chips[i] for i in own),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": f"1,{len(own)},1",
        "TPU_PROCESS_BOUNDS": "1,1,1",
    }
