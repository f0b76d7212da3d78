"""A config made into the parts of a run: devices, data, task, model, numbers, schedule."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from attention import configuration, tasks
from attention.data import load_dataset
from attention.data.dataset import Dataset
from attention.data.encoded import EncodedEpochs, EncodedSplit
from attention.data.epochs import samples
from attention.data.items import LongWarnings, warn_long
from attention.data.packing import check_batch
from attention.data.pipeline import train_iterator
from attention.data.plan import TrainPlan
from attention.data.streams import slots_per_row
from attention.errors import UserError
from attention.training.evaluate import Evaluator, Predictor, start_multiple
from attention.training.optimizer import Hyper, make_hyper
from attention.training.parallel import Parallel, make_parallel
from attention.training.run_directory import RunDirectory
from attention.training.shared import Shared
from attention.training.state import (
    ModelParts,
    TrainState,
    init_model,
    init_state,
    make_initializer,
)
from attention.training.step import make_train_step

log = logging.getLogger(__name__)

TRUNCATED = "is truncated"  # what training does with a long example
SAMPLES = 2  # what numbers are drawn for, apart from the orders of a plan


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything that stays the same from the first step to the last."""

    config: Any
    run: RunDirectory
    parallel: Parallel
    dataset: Dataset
    task: Any
    train: EncodedSplit | EncodedEpochs
    plan: TrainPlan
    total_steps: int
    hyper: Hyper
    parts: ModelParts  # the initial parameters
    shared: Shared

    @property
    def data_hashes(self) -> dict[str, str]:
        """The content of each split, by name."""
        return {name: split.content_hash for name, split in self.dataset.splits.items()}

    def check_same_data(self, before: dict[str, str]) -> None:
        """Refuses to go on with other training data; warns where dev or test are others.

        Args:
          before: the `data_hashes` of the run so far.
        """
        now = self.data_hashes
        if now["train"] != before["train"]:
            raise UserError(
                f"{self.run.path} was trained on other data (content {before['train'][:12]}, now "
                f"{now['train'][:12]}): restore the files, or choose another --workdir"
            )
        for split in ("dev", "test"):
            if now.get(split) != before.get(split):
                log.warning("the %s split has changed: earlier scores are of other data", split)

    def steps(self, duration: int | str) -> int:
        """A duration of the config (steps, epochs, percent) in steps, at least 1."""
        return configuration.steps(
            duration, total_steps=self.total_steps, steps_per_epoch=self.plan.steps_per_epoch
        )

    def evaluators(self) -> dict[str, Evaluator]:
        """What scores dev and test, as far as the data set has them."""
        return {
            split: self.shared.get(("evaluator", split), lambda split=split: self._evaluator(split))
            for split in ("dev", "test")
            if split in self.dataset.splits
        }

    def _evaluator(self, split: str) -> Evaluator:
        encoded = encode_for_evaluation(self.task, self.dataset.split(split), self.config)
        return Evaluator(self.task, encoded, self.config, self.parallel)

    def pure_step(self) -> Any:
        """The training step before it is wrapped and compiled."""
        optimizer = self.config.optimizer
        return make_train_step(
            self.parts.structure,
            self.task.loss,
            schedule=optimizer.schedule,
            accumulation_steps=optimizer.accumulation_steps,
            across=self.parallel.across,
        )

    def train_step(self) -> Any:
        """The compiled `(state, batch, hyper) -> (state, metrics)`."""
        if self.parallel is not self.parallel.base:
            # It leads to the states of a group, and ends with it; the group shares the program.
            return self.parallel.train_step(self.pure_step())
        return self.shared.get("train step", lambda: self.parallel.train_step(self.pure_step()))

    def predictor(self) -> Predictor:
        """What runs the model on a split."""
        return self.shared.get(
            "predictor", lambda: Predictor(self.task, self.parts, self.parallel.base)
        )

    def iterator(self) -> Any:
        """The batches of the run from its first step, read ahead; it can be moved to a step."""
        return train_iterator(
            self.train.item,
            self.plan,
            streams=self.task.STREAMS,
            num_steps=self.total_steps,
            process_index=jax.process_index(),
            process_count=jax.process_count(),
            threads=self.config.data.num_threads,
        )

    def initial_state(self) -> TrainState:
        """The state before the first update, as it is saved (without a device axis)."""
        return jax.jit(init_state)(self.parts.params)


def prepare(
    config: Any,
    run: RunDirectory,
    *,
    past_ends: Sequence[int] = (),
    shared: Shared | None = None,
    parallel: Any = None,
) -> Experiment:
    """Builds the parts of a run; user errors surface here, before anything is compiled.

    Args:
      past_ends: where the run had ended before it was made longer (`TrainPlan.ends_before`).
      shared: what earlier runs with this program have left.
      parallel: how its steps are wrapped; None = as the config says.
    """
    shared = shared or Shared()
    if parallel is None:
        parallel = shared.get("parallel", lambda: make_parallel(config.parallelism))
    check_divisible(config, parallel)
    dataset = shared.get("dataset", lambda: open_dataset(config))
    task = open_task(config, run, dataset, shared=shared)
    train = _training_split(config, task, dataset, shared)
    plan = make_plan(config, task, train, parallel, past_ends)
    total_steps = config.train_steps or plan.steps_in_epochs(config.train_epochs)
    initializer = shared.get("initializer", lambda: make_initializer(task.make_model))
    parts = init_model(task.make_model, config.seed, initializer)
    warmup_steps = configuration.steps(
        config.optimizer.warmup_steps,
        total_steps=total_steps,
        steps_per_epoch=plan.steps_per_epoch,
    )
    hyper = make_hyper(
        config, total_steps=total_steps, warmup_steps=warmup_steps, rates=parts.rates
    )
    return Experiment(
        config, run, parallel, dataset, task, train, plan, total_steps, hyper, parts, shared
    )


def check_divisible(config: Any, parallel: Parallel) -> None:
    """Refuses a batch that does not share out evenly, before any data is read."""
    parts = config.optimizer.accumulation_steps
    devices = f"{parallel.num_devices} devices"
    check_batch(
        rows=config.batch_size,
        tokens=config.batch_tokens,
        max_length=config.data.max_length,
        pack=config.data.pack == "always",
        multiple_of=parallel.num_devices * parts,
        what=f"{devices} × {parts} accumulation steps" if parts > 1 else devices,
    )


def open_dataset(config: Any) -> Dataset:
    """The config's data set, prepared if it is new."""
    task = tasks.get(config.task).Task
    return load_dataset(
        config.dataset,
        task=config.task,
        paths=task.paths(config),
        options=task.options(config),
        train_examples=config.data.get("train_examples"),
    )


def open_task(
    config: Any, run: RunDirectory, dataset: Dataset, *, shared: Shared | None = None
) -> Any:
    """The task with the run's vocabulary; fitted on the training split the first time."""
    task_class = tasks.get(config.task).Task
    if run.has_tokenizer:
        return task_class.load(config, run.tokenizer)

    def fit() -> Any:
        task = task_class.fit(config, dataset.split("train"))
        if dataset.direction is not None:
            task.direction = dataset.direction
        return task

    fitted = (shared or Shared()).get("vocabulary", fit)
    # The vocabulary of another run, perhaps, with the numbers of this one.
    task = copy.copy(fitted)
    task.config = config
    run.install_tokenizer(task.save)
    return task


def _training_split(
    config: Any, task: Any, dataset: Dataset, shared: Shared
) -> EncodedSplit | EncodedEpochs:
    def encode() -> EncodedSplit | EncodedEpochs:
        return encode_for_training(task, dataset.split("train"), config)

    drawn = config.data.get("subword_regularisation", 0.0)  # by the seed of the run
    return encode() if drawn else shared.get("training split", encode)


def make_plan(
    config: Any,
    task: Any,
    train: EncodedSplit | EncodedEpochs,
    parallel: Parallel,
    past_ends: Sequence[int],
) -> TrainPlan:
    """Which items go to which row of which step."""
    pack = config.data.pack == "always"
    if not pack:
        log.info("no packing: one example a row, in batches of similar length")
    order_seed = config.data.order_seed
    return TrainPlan(
        train.item_lengths,
        seed=config.seed if order_seed is None else order_seed,
        max_length=config.data.max_length,
        rows=config.batch_size,
        tokens=config.batch_tokens,
        pack=pack,
        slots=slots_per_row(task.STREAMS, config.data.max_length),
        epochs=config.train_epochs,
        past_ends=past_ends,
        start_multiple=start_multiple(config),
        multiple_of=parallel.num_devices * config.optimizer.accumulation_steps,
    )


def encode_for_training(task: Any, examples: Any, config: Any) -> EncodedSplit | EncodedEpochs:
    """A split with one item an example, cut at `data.max_length`.

    With `data.subword_regularisation` it is encoded anew for each epoch: `task.encode` gets a
    number made from (seed, epoch, example) as `sample`.
    """

    def encode(numbers: np.ndarray | None = None) -> EncodedSplit:
        limit = config.data.max_length
        return EncodedSplit(
            examples, task.encode, streams=task.STREAMS, max_length=limit, samples=numbers
        )

    if not config.data.get("subword_regularisation", 0.0):
        encoded = first = encode()
    else:

        def drawn(epoch: int) -> EncodedSplit:
            split = encode(samples(len(examples), config.seed, epoch, SAMPLES))
            if epoch:  # of the first one each has a line, below
                _say_how_many_are_cut(split, epoch, config.data.max_length, unit=task.UNIT)
            return split

        encoded = EncodedEpochs(drawn)
        first = encoded.first
    warn_long(
        first.longest,
        config.data.max_length,
        where=_places(examples),
        consequence=TRUNCATED,
        unit=task.UNIT,
    )
    return encoded


def _say_how_many_are_cut(split: EncodedSplit, epoch: int, limit: int, *, unit: str) -> None:
    """A text that fits as it is cut in one epoch may be too long in another."""
    if number := int(np.count_nonzero(split.longest > limit)):
        log.warning(
            "epoch %d: %d of %d examples have, as they are drawn now, more %s than "
            "data.max_length=%d: each %s",
            *(epoch + 1, number, len(split.longest), unit, limit, TRUNCATED),
        )


def encode_for_evaluation(
    task: Any, examples: Any, config: Any, *, warnings: LongWarnings | None = None
) -> EncodedSplit:
    """A split in items of at most `data.max_length`: pieces where the task has them, so that every
    token is scored; else one an example, which is cut.

    Args:
      warnings: counts the long examples of a stream that comes in several splits; its owner closes
        it. None: this is all there is.
    """
    encoded = EncodedSplit(
        examples,
        task.encode,
        streams=task.STREAMS,
        max_length=config.data.max_length,
        pieces=task.PIECES,
    )
    all_warnings = warnings or long_warnings(task, config)
    all_warnings.report(encoded.longest, where=_places(examples))
    if warnings is None:
        all_warnings.close()
    return encoded


def long_warnings(task: Any, config: Any) -> LongWarnings:
    """What warns of the long examples of evaluation and prediction."""
    consequence = "runs in pieces" if task.PIECES else TRUNCATED
    return LongWarnings(config.data.max_length, consequence=consequence, unit=task.UNIT)


def _places(examples: Any) -> Callable[[int], tuple[str, int]]:
    """From an example's index to its file and line."""
    return lambda index: (examples[index]["file"], examples[index]["line"])


def hash_of(*parts: str) -> str:
    """A short name for a combination of contents."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
