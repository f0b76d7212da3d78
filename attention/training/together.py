"""Several runs that take their steps at once: one program, mapped over states and numbers.

Each run is an ordinary one, with its own directory, log and checkpoints, in a thread of its own; at
each step they meet here. It sees what it is given as `parallel`: a `Member`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from attention.training.interrupt import Interruption
from attention.training.mapped import MappedStep, all_equal, stack, take
from attention.training.optimizer import Hyper
from attention.training.parallel import Jit
from attention.training.shared import Shared
from attention.training.state import TrainState
from attention.training.step import Batch


class CommonStepError(RuntimeError):
    """The program that takes the steps of all runs failed, which is the fault of none of them.

    The message is one line, with the first of its cause.
    """

    def __init__(self, size: int, cause: BaseException) -> None:
        reason = f"{type(cause).__name__}: {cause}".partition("\n")[0]
        super().__init__(f"the step of {size} runs at once failed: {reason}")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error, or what it came from, says that memory did not suffice."""
    cause = error.__cause__ if isinstance(error, CommonStepError) else error
    return isinstance(cause, MemoryError) or "RESOURCE_EXHAUSTED" in str(cause)


class Together:
    """The place where the runs meet.

    Args:
      base: what places their arrays and runs their predictions.
      size: how many runs there are. One that has ended keeps its place in the arrays, and what is
        computed there is not looked at.
      shared: keeps the mapped step for the next runs of this size.
      interrupt: what says that all are to stop.

    Attributes:
      requested: the signal received, as of the last common step: were each run to look for itself,
        one could stop a step before the others. (After its last step each may.)
    """

    def __init__(self, base: Jit, size: int, shared: Shared, interrupt: Interruption) -> None:
        self.base = base
        self.size = size
        self.requested: str | None = None
        self._interrupt = interrupt
        self.idle_seconds = [0.0] * size  # of each run: until the last of the others came
        self._shared = shared
        self._step: MappedStep | None = None
        self._hypers: Any = None
        # Once it is so it stays so: those of the last run that is left are equal again, and it
        # would wait for a second program to be compiled.
        self._own_batches = False
        self._met = threading.Condition()
        self._present = set(range(size))
        self._round = 0
        self._complete_at = 0.0  # when the last of a round came
        self._given: dict[int, _Given] = {}  # of this round so far
        self._outcome: _Outcome | BaseException | None = None

    def members(self) -> list[Member]:
        """What each of the runs takes for its `parallel`."""
        return [Member(self, index) for index in range(self.size)]

    def wrap(self, step: Callable) -> None:
        """Takes the step of all runs; that of the first is that of the others."""
        with self._met:
            self._step = self._shared.get(
                ("mapped step", self.size), lambda: MappedStep(step, self.base)
            )

    @property
    def compile_seconds(self) -> float:
        return self._step.compile_seconds if self._step else 0.0

    def flops(self, batch: Batch) -> int:
        """The floating-point operations of one run's step with such a batch."""
        assert self._step is not None
        return self._step.flops(batch)

    def step(self, index: int, state: Any, batch: Batch, hyper: Hyper) -> tuple[Share, Metrics]:
        """Waits until every run is there, and returns this one's part of what comes out.

        Raises CommonStepError, in every thread, where the program fails.
        """
        arrived = time.perf_counter()
        with self._met:
            this = self._round
            self._given[index] = _Given(state, batch, hyper)
            self._run_if_complete()
            self._met.wait_for(lambda: self._round > this)
            self.idle_seconds[index] += max(self._complete_at - arrived, 0.0)
            if isinstance(self._outcome, BaseException):
                raise CommonStepError(self.size, self._outcome) from self._outcome
            assert self._outcome is not None
            return Share(self._outcome.states, index), Metrics(self._outcome.metrics, index)

    def leave(self, index: int) -> None:
        """The others go on without this run; after the last one nothing of them is kept."""
        with self._met:
            self._present.discard(index)
            self._run_if_complete()
            if not self._present:
                self._given, self._hypers, self._outcome = {}, None, None

    def _run_if_complete(self) -> None:
        if not self._present or not self._present <= set(self._given):
            return
        self._complete_at = time.perf_counter()
        self.requested = self._interrupt.requested
        try:
            self._outcome = self._run()
        except BaseException as error:
            self._outcome = error
        self._given = {}
        self._round += 1
        self._met.notify_all()

    def _run(self) -> _Outcome:
        known = next(iter(self._given.values()))
        # A run that has ended keeps its place with the batch of another: with its own last one no
        # batch would be common to all, and without packing it may have another shape.
        members = [self._given.get(index, known) for index in range(self.size)]
        if self._hypers is None:
            self._hypers = stack(*[one.hyper for one in members])
        before = self._outcome.states if isinstance(self._outcome, _Outcome) else None
        states = stack(*[one.state for one in members]) if before is None else before
        assert self._step is not None
        batches = [one.batch for one in members]
        self._own_batches = self._own_batches or not all_equal(batches)
        states, metrics = self._step(states, batches, self._hypers, own_batches=self._own_batches)
        return _Outcome(states, _OnHost(metrics))


class _Given(NamedTuple):
    """What a run brings to a step."""

    state: Any
    batch: Batch
    hyper: Hyper


class _OnHost:
    """Arrays that are fetched once, whoever asks first."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._fetched = False
        self._lock = threading.Lock()

    def get(self) -> Any:
        with self._lock:
            if not self._fetched:
                self._tree, self._fetched = jax.device_get(self._tree), True
            return self._tree


class _Outcome(NamedTuple):
    """What a step gives to all: each leaf has a leading axis of runs."""

    states: Any
    metrics: _OnHost


class Share:
    """One run's part of the states of all, taken out when it is looked at.

    Good until the run takes its next step, which reuses the memory.
    """

    def __init__(self, states: Any, index: int) -> None:
        self._states = states
        self._index = index

    @property
    def params(self) -> Any:
        """The parameters of the run alone."""
        return self.alone().params

    def alone(self) -> TrainState:
        """The state of the run alone."""
        return take(self._states, self._index)


class Metrics:
    """One run's part of the metrics of all, on the host."""

    def __init__(self, metrics: _OnHost, index: int) -> None:
        self._metrics = metrics
        self._index = index

    def alone(self) -> Any:
        """The metrics of the run alone."""
        return jax.tree.map(lambda leaf: leaf[self._index], self._metrics.get())


class Member:
    """One of the runs that step together, as the rest of the program sees it: a `Parallel`."""

    def __init__(self, together: Together, index: int) -> None:
        base = together.base
        self.base = base
        self._together = together
        self._index = index
        self.across = base.across
        self.runs_at_once = together.size
        self.num_devices = base.num_devices
        self.place = base.place
        self.abstract = base.abstract
        self.to_host = base.to_host
        self.predict_step = base.predict_step

    def place_batch(self, batch: Any) -> Any:
        """Left on the host: only when all have come is it known what is placed."""
        return batch

    def one_copy(self, tree: Any) -> Any:
        """The tree as it is saved: that of this run alone."""
        return tree.alone() if isinstance(tree, Share | Metrics) else tree

    def train_step(self, step: Callable) -> _Meeting:
        """Wraps `(state, batch, hyper) -> (state, metrics)`."""
        self._together.wrap(step)
        return _Meeting(self._together, self._index)

    def leave(self) -> None:
        """The others go on without this run."""
        self._together.leave(self._index)


class _Meeting:
    """The compiled step of one of the runs."""

    def __init__(self, together: Together, index: int) -> None:
        self._together = together
        self._index = index

    @property
    def compile_seconds(self) -> float:
        return self._together.compile_seconds

    @property
    def idle_seconds(self) -> float:
        """Seconds spent waiting for the other runs."""
        return self._together.idle_seconds[self._index]

    def flops(self, batch: Batch) -> int:
        """The floating-point operations of a step with such a batch, which has been taken."""
        return self._together.flops(batch)

    def __call__(self, state: Any, batch: Batch, hyper: Hyper) -> tuple[Share, Metrics]:
        return self._together.step(self._index, state, batch, hyper)
