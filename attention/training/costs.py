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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from attention import configuration
from attention.configuration.overrides import apply_overrides
from attention.data.dataset import Dataset
from attention.data.encoded import EncodedEpochs, EncodedSplit
from attention.data.plan import TrainPlan
from attention.training import experiment
from attention.training.parallel import make_parallel
from attention.training.peak import matmul_parameters
from attention.training.result import run_flops
from attention.training.run_directory import RunDirectory
from attention.training.runtime import set_up_runtime
from attention.training.shared import Shared
from attention.training.state import abstract_model, count_parameters

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

    def parameters(self, config: Any) -> int:
        """The trained numbers of the model: shapes alone, no array is made."""
        return count_parameters(abstract_model(self._task(config).make_model).params)

    def flops(self, config: Any, tokens: float) -> float:
        """Of training on so many real tokens, as result.json has them."""
        task = self._task(config)
        params = abstract_model(task.make_model).params
        return run_flops(matmul_parameters(params), tokens, task)

    def total_steps(self, config: Any) -> int:
        """The steps of a whole run."""
        if config.train_steps:
            return config.train_steps
        return self._plan(config).steps_in_epochs(config.train_epochs)

    def step_tokens(self, config: Any) -> Iterator[int]:
        """Yields the real tokens of each step; there is no last one where `train_steps` is set."""
        train, plan = self._train(config), self._plan(config)
        tokens = _item_tokens(train)
        steps = itertools.count() if config.train_steps else range(self.total_steps(config))
        for step in steps:
            yield sum(tokens(item) for row in plan.batch(step).rows for item in row)

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
        frequencies = Counter(_shape(x.plan, step) for step in range(_LOOK_AHEAD))
        seconds: dict[tuple[int, int], float] = {}
        for step, batch in enumerate(x.iterator()):
            shape = _shape(x.plan, step)
            if shape not in seconds:
                seconds[shape] = _step_seconds(x, batch)
            if len(seconds) == len(frequencies):
                break
        return sum(seconds[shape] * number for shape, number in frequencies.items()) / _LOOK_AHEAD

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


def _item_tokens(train: EncodedSplit | EncodedEpochs) -> Callable[[int], int]:
    """The real tokens of an item, of all streams, by its number in a plan."""
    if isinstance(train, EncodedSplit):
        return train.item_lengths.sum(axis=1).tolist().__getitem__
    number = len(train.item_lengths(0))

    def tokens(item: int) -> int:
        return int(train.item_lengths(item // number)[item % number].sum())

    return tokens


def _shape(plan: TrainPlan, step: int) -> tuple[int, int]:
    batch = plan.batch(step)
    return len(batch.rows), batch.length


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
