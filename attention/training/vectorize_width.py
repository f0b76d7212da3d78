"""How many runs train best at once on this machine: what fits, and a short measurement."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax

from attention import configuration
from attention.training.experiment import Experiment, prepare
from attention.training.host_memory import host_memory
from attention.training.mapped import MappedStep, stack
from attention.training.parallel import Jit
from attention.training.run_directory import RunDirectory
from attention.training.runtime import set_up_runtime
from attention.training.shared import Shared
from attention.training.step import Batch
from attention.training.together import out_of_memory

log = logging.getLogger(__name__)

_STEPS = 5  # timed; one more warms up
_SHARE_OF_MEMORY = 0.8
_WORTH_IT = 0.97  # more at once must take this share of the time a run, or less
_LOOK_UP_TO = 4  # tried even where 2 do not pay


class Width(NamedTuple):
    """How many runs to train at once, a power of 2: the best of what was tried.

    `untried` would have been tried next, had there been so many runs; None: there was no need to.
    """

    best: int
    untried: int | None = None


def choose_width(config: Any, *, most: int, own_batches: bool, shared: Shared) -> Width:
    """Measures how many runs like this one to train at once.

    It tries 1, 2 and 4, doubles on as long as that makes a step cheaper for each run and memory
    lasts, and logs what it measured. The programs it compiles are kept in `shared`, for the runs
    themselves.

    Args:
      config: of one of the runs, resolved.
      most: the number of runs there are.
      own_batches: whether they read different batches; else one serves all, which is cheaper.
      shared: what runs with this program share.

    Raises whatever keeps a run from its first steps: wrong input, too little memory for one.
    """
    set_up_runtime(config)
    config = configuration.choose_implementation(config)
    shared.begin(configuration.program_of(config))
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(folder)
        run.create()
        base = shared.get("parallel", Jit)
        experiment = prepare(config, run, shared=shared, parallel=base)
        batch = next(experiment.iterator())
        seconds = {1: _seconds_alone(experiment, batch)}
        best, untried = 1, 2
        while untried and untried <= most:
            width, untried = untried, None
            batches = [batch] * width
            if (together := _seconds_at_once_if_it_fits(experiment, batches, own_batches)) is None:
                break
            seconds[width] = together / width
            pays = seconds[width] <= _WORTH_IT * seconds[best]
            best = width if pays else best
            untried = 2 * width if pays or width < _LOOK_UP_TO else None
    listed = ", ".join(f"{1e3 * value:.3g} ms at {number}" for number, value in seconds.items())
    log.info("--vectorize=auto: %d at once (a step of one run takes %s)", best, listed)
    return Width(best, untried)


def _seconds_alone(x: Experiment, batch: Batch) -> float:
    step = x.train_step()
    placed, hyper = x.parallel.place_batch(batch), x.parallel.place(x.hyper)
    state = x.parallel.place(x.initial_state())
    return _timed(lambda state: step(state, placed, hyper), state)


def _seconds_at_once(x: Experiment, batches: Sequence[Batch], own_batches: bool) -> float:
    base, width = cast(Jit, x.parallel), len(batches)
    step = x.shared.get(("mapped step", width), lambda: MappedStep(x.pure_step(), base))
    hypers = stack(*[x.parallel.place(x.hyper)] * width)
    states = stack(*[x.parallel.place(x.initial_state())] * width)
    return _timed(lambda states: step(states, batches, hypers, own_batches=own_batches), states)


def _seconds_at_once_if_it_fits(
    x: Experiment, batches: Sequence[Batch], own_batches: bool
) -> float | None:
    if not _fits(x, len(batches)):
        return None
    try:
        return _seconds_at_once(x, batches, own_batches)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        # Only an estimate said that it fits: one program at once may hold more than so many alone.
        if not out_of_memory(error):
            raise
        return None


def _timed(step: Any, state: Any) -> float:
    """The least seconds of some steps, each waited for."""
    least = float("inf")
    for number in range(_STEPS + 1):
        start = time.perf_counter()
        state, _ = jax.block_until_ready(step(state))
        if number:
            least = min(least, time.perf_counter() - start)
    return least


def _fits(x: Experiment, width: int) -> bool:
    """Whether so many runs fit into free memory: what one takes, measured, times their number."""
    return width * x.train_step().memory_bytes <= _SHARE_OF_MEMORY * _free_memory()


def _free_memory() -> int:
    """Bytes, of a device where it says so; on a CPU this process's part of the host's."""
    statistics = jax.local_devices()[0].memory_stats() or {}
    if limit := statistics.get("bytes_limit"):
        return limit - statistics.get("bytes_in_use", 0)
    return host_memory()
