"""What a run of a config will spend, found without running it; seconds by a short measurement.

All but parameters needs JAX's devices, which on some accelerators only one process may hold.
"""

from __future__ import annotations

import itertools
import json
import socket
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from attention import configuration
from attention.configuration.overrides import apply_overrides
from attention.data.dataset import Dataset
from attention.data.encoded import EncodedEpochs, EncodedSplit
from attention.data.pipeline import assemble
from attention.data.plan import PlannedBatch, TrainPlan
from attention.training import experiment, flops
from attention.training.optimizer import make_hyper
from attention.training.parallel import make_parallel
from attention.training.run_directory import RunDirectory
from attention.training.runtime import set_up_runtime
from attention.training.shared import Shared
from attention.training.state import abstract_model, count_parameters, init_state
from attention.training.step import make_train_step

# Of a batch: rows, positions of a row, and entries of a row where a stream has one an example.
Shape = tuple[int, int, int]

_LOOK_AHEAD = 200  # steps whose batches say how often each shape comes
_FEWEST, _MOST, _SECONDS = 5, 50, 0.5  # of a shape, timed after the first


class _Data(NamedTuple):
    """What configs with the same data share: the split as it is encoded comes on demand."""

    run: RunDirectory
    dataset: Dataset
    encoded: dict[str, EncodedSplit | EncodedEpochs]


class Costs:
    """Reads each data set once.

    Args:
      folder: an empty one, for vocabularies.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._data: dict[str, _Data] = {}
        self._flops: dict[tuple[str, Shape], int] = {}

    def parameters(self, config: Any) -> int:
        """The trained numbers of the model: shapes alone, no array is made."""
        return count_parameters(abstract_model(self._task(config).make_model).params)

    def flops(self, config: Any, batches: Mapping[Shape, int]) -> int:
        """Of training on so many batches of each shape, as result.json has them.

        The step is traced once for each shape, and nothing compiled.
        """
        config = configuration.choose_implementation(config)
        program = configuration.program_of(config)
        for shape in batches:
            if (program, shape) not in self._flops:
                self._flops[program, shape] = self._step_flops(config, shape)
        return sum(self._flops[program, shape] * number for shape, number in batches.items())

    def total_steps(self, config: Any) -> int:
        """The steps of a whole run."""
        if config.train_steps:
            return config.train_steps
        return self._plan(config).steps_in_epochs(config.train_epochs)

    def shapes(self, config: Any) -> Iterator[Shape]:
        """Yields the shape of each step's batch; there is no last one where `train_steps` is set.

        A width of the model changes none of them.
        """
        plan = self._plan(config)
        steps = itertools.count() if config.train_steps else range(self.total_steps(config))
        if len(plan.shapes) == 1:
            shape = _shape(plan.batch(0))
            return (shape for _ in steps)
        return (_shape(plan.batch(step)) for step in steps)

    def seconds_per_step(self, config: Any) -> float:
        """Measures the compiled step, waited for: the mean over shapes of batches, each with the
        median of a few and weighed by how often it comes."""
        set_up_runtime(config)
        config = configuration.choose_implementation(config)
        config = apply_overrides(config, [("train_steps", _LOOK_AHEAD)])
        data = self._of(config)
        shared = Shared()
        shared.get("dataset", lambda: data.dataset)
        shared.get("training split", lambda: self._train(config))
        x = experiment.prepare(config, data.run, shared=shared)
        frequencies = Counter(_shape(x.plan.batch(step)) for step in range(_LOOK_AHEAD))
        seconds: dict[Shape, float] = {}
        for step, batch in enumerate(x.iterator()):
            shape = _shape(x.plan.batch(step))
            if shape not in seconds:
                seconds[shape] = _step_seconds(x, batch)
            if len(seconds) == len(frequencies):
                break
        return sum(seconds[shape] * number for shape, number in frequencies.items()) / _LOOK_AHEAD

    def _step_flops(self, config: Any, shape: Shape) -> int:
        task = self._task(config)
        # Without replicas, whatever the config says: what they do again counts once in a run too.
        parts, optimizer = abstract_model(task.make_model), config.optimizer
        step = make_train_step(
            parts.structure,
            task.loss,
            schedule=optimizer.schedule,
            accumulation_steps=optimizer.accumulation_steps,
        )
        hyper = make_hyper(config, total_steps=1, warmup_steps=1, rates=parts.rates)
        state = jax.eval_shape(init_state, parts.params)
        batch = self._empty_batch(config, task, shape)
        return flops.count(jax.make_jaxpr(step)(state, batch, hyper)).flops

    def _empty_batch(self, config: Any, task: Any, shape: Shape) -> Any:
        rows, length, slots = shape
        template = self._train(config).item(0)
        planned = PlannedBatch(length, ((),) * rows, slots=slots)
        return assemble([[]] * rows, planned, task.STREAMS, template=template)

    def _of(self, config: Any) -> _Data:
        # Model and numbers leave what is read, and how it is encoded, as it is.
        program = json.loads(configuration.program_of(config))
        kept = {key: value for key, value in program.items() if not key.startswith("model.")}
        key = json.dumps(kept, sort_keys=True)
        if key not in self._data:
            run = RunDirectory(self._folder / str(len(self._data)))
            run.create()
            self._data[key] = _Data(run, experiment.open_dataset(config), {})
        return self._data[key]

    def _task(self, config: Any) -> Any:
        data = self._of(config)
        return experiment.open_task(config, data.run, data.dataset)

    def _train(self, config: Any) -> EncodedSplit | EncodedEpochs:
        data = self._of(config)
        if "train" not in data.encoded:
            split = data.dataset.split("train")
            encoded = experiment.encode_for_training(self._task(config), split, config)
            data.encoded["train"] = encoded
        return data.encoded["train"]

    def _plan(self, config: Any) -> TrainPlan:
        parallel = make_parallel(config.parallelism)
        return experiment.make_plan(config, self._task(config), self._train(config), parallel, ())


def _shape(batch: PlannedBatch) -> Shape:
    return len(batch.rows), batch.length, batch.slots


def _step_seconds(x: experiment.Experiment, batch: Any) -> float:
    """Seconds of a step, from the batch on the host to the metrics on the host."""
    step, hyper = x.train_step(), x.parallel.place(x.hyper)
    state = x.parallel.place(x.initial_state())
    times: list[float] = []
    while len(times) <= _FEWEST or (len(times) <= _MOST and sum(times[1:]) < _SECONDS):
        start = time.perf_counter()
        state, metrics = step(state, x.parallel.place_batch(batch), hyper)
        jax.device_get(x.parallel.one_copy(metrics))
        jax.block_until_ready(state)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])  # the first compiles, and warms up


def where_measured() -> str:
    """The devices and the host."""
    return f"{jax.device_count()} × {jax.devices()[0].device_kind} of {socket.gethostname()}"
