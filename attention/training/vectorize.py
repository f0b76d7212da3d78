"""Trains several configs at once that differ only in numbers, by mapping one program over them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax

from attention import configuration
from attention.configuration.fields import leaves
from attention.errors import UserError
from attention.training import tracking
from attention.training.checkpoint import Checkpoints
from attention.training.interrupt import interruptible
from attention.training.loop import Pruner, train
from attention.training.memory import PeakMemory
from attention.training.parallel import Jit
from attention.training.peak import peak_flops
from attention.training.run_directory import RunDirectory
from attention.training.runtime import set_up_runtime
from attention.training.shared import Shared
from attention.training.together import Member, Together

# A signal that the system gives to another thread is handled when this one next runs.
_SECONDS_UNTIL_A_SIGNAL_IS_SEEN = 0.2


class Outcome(NamedTuple):
    """How one of the runs ended: one of the two is None."""

    result: Mapping[str, Any] | None  # the content of result.json
    error: Exception | None


def train_together(
    configs: Sequence[Any],
    workdirs: Sequence[str],
    *,
    prune: Sequence[Pruner | None] | None = None,
    shared: Shared | None = None,
) -> list[Outcome]:
    """Trains runs at once, each in its own directory; what happens to one does not touch the rest.

    Args:
      configs: resolved; they may differ in numbers alone.
      workdirs: a run directory for each. All must be new, or stand at the same step.
      prune: for each run, what may end it early.
      shared: what earlier runs of this process have left for those like them.

    Raises:
      UserError: configs that cannot run together, with the first key that stands in the way.
    """
    check_alike(configs)
    for config in configs:
        tracking.require(config)
    _check_same_step(workdirs)
    set_up_runtime(configs[0])
    peak_flops(configs[0].dtype)  # measured once, while the threads do not disturb each other
    shared = shared or Shared()
    shared.begin(configuration.program_of(configuration.choose_implementation(configs[0])))
    pruners = prune or [None] * len(configs)
    base, memory = shared.get("parallel", Jit), PeakMemory()
    with interruptible() as interrupt, ThreadPoolExecutor(len(configs)) as pool:
        together = Together(base, len(configs), shared, interrupt)

        def one(config: Any, workdir: str, pruner: Pruner | None, member: Member) -> Outcome:
            threading.current_thread().name = workdir
            try:
                options = {"shared": shared, "parallel": member, "interrupt": together}
                options["memory"] = memory
                options["interrupt_at_the_end"] = interrupt
                return Outcome(train(config, workdir, prune=pruner, **options), None)
            except Exception as error:
                return Outcome(None, error)
            finally:
                member.leave()

        runs = zip(configs, workdirs, pruners, together.members(), strict=True)
        return _results([pool.submit(one, *run) for run in runs])


def _results(futures: Sequence[Future[Outcome]]) -> list[Outcome]:
    """Waits for all; in between this thread, the main one, runs the handlers of signals."""
    while wait(futures, timeout=_SECONDS_UNTIL_A_SIGNAL_IS_SEEN).not_done:
        pass
    return [future.result() for future in futures]


def check_alike(configs: Sequence[Any]) -> None:
    """Raises UserError unless the configs can be trained by one program at once."""
    first = dict(leaves(configs[0]))
    for config in configs[1:]:
        other = dict(leaves(config))
        for key in sorted(first.keys() | other.keys()):
            a, b = first.get(key), other.get(key)
            if not configuration.same_program(key, a, b):
                raise UserError(
                    f"{key}={a!r} and {key}={b!r} need programs of their own: runs that train at "
                    "once may differ in numbers alone (seed, learning rate, dropout, …)"
                )
    if configs[0].parallelism != "jit":
        raise UserError("parallelism=pmap: runs train at once with parallelism=jit alone")
    if jax.process_count() > 1:
        raise UserError("runs train at once in one process; several hosts have trials of their own")
    if configs[0].data.pack == "always":
        return
    if _differ_in_order(configs):
        raise UserError(
            "without packing each order of the data has batches of its own shapes: set "
            "data.order_seed to one number for all, or data.pack=always"
        )
    if _differ_in_pieces(configs):
        drawn = configs[0].data.subword_regularisation
        raise UserError(
            f"without packing data.subword_regularisation={drawn} gives each seed batches "
            "of its own shapes: set data.pack=always, or train them one after the other"
        )


def have_own_batches(configs: Sequence[Any]) -> bool:
    """Whether runs that train at once read different batches; else one serves all."""
    return _differ_in_order(configs) or _differ_in_pieces(configs)


def _differ_in_order(configs: Sequence[Any]) -> bool:
    order_seeds = {
        config.seed if config.data.order_seed is None else config.data.order_seed
        for config in configs
    }
    return len(order_seeds) > 1


def _differ_in_pieces(configs: Sequence[Any]) -> bool:
    """Whether words are split into pieces that are drawn, by seeds that differ."""
    drawn = configs[0].data.get("subword_regularisation", 0.0)
    return bool(drawn) and len({config.seed for config in configs}) > 1


def _check_same_step(workdirs: Sequence[str]) -> None:
    """Runs that stand at different steps would need batches of different epochs and shapes."""
    steps = {workdir: newest_step(workdir) for workdir in workdirs}
    if len(set(steps.values())) > 1:
        listed = ", ".join(f"{workdir} at {step}" for workdir, step in steps.items())
        raise UserError(f"runs that train at once must stand at the same step: {listed}")


def newest_step(workdir: str) -> int:
    """The step of a run's newest whole checkpoint; 0 where there is none."""
    with Checkpoints(RunDirectory(workdir).checkpoints, read_only=True) as checkpoints:
        return max(checkpoints.steps(), default=0)
