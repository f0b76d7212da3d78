"""A made-up task with two streams of tokens and a label an example, and small data for it.

A target token is its source token plus one, and an example's label is whether its source is long.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import sys
import types
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from ml_collections import ConfigDict

from attention import tasks
from attention.core.dropout import Dropout
from attention.core.linear import Linear
from attention.data.dataset import Dataset, Split
from attention.data.streams import Stream
from attention.losses import Sum, token_cross_entropy
from attention.training import experiment
from configs import common

VOCABULARY = 20


class Model(nnx.Module):
    """Each target token and each example sees the mean of its own source."""

    def __init__(self, dim: int, rate: float, rngs: nnx.Rngs):
        self.embed = nnx.Embed(VOCABULARY, dim, rngs=rngs)
        self.next = Linear(dim, VOCABULARY, rngs=rngs)
        self.long = Linear(dim, 2, rngs=rngs)
        self.dropout = Dropout(rate)

    def __call__(self, batch, rngs=None):
        source, target, examples = batch["source"], batch["target"], batch["examples"]
        embedded = self.dropout(self.embed(source["ids"]), rngs=rngs)
        to_target = self.mean(embedded, same(target, source))
        logits = self.next(self.embed(target["inputs"]) + to_target)
        return logits, self.long(self.mean(embedded, same(examples, source)))

    def mean(self, embedded, seen):
        weights = seen / jnp.maximum(seen.sum(axis=-1, keepdims=True), 1)
        return jnp.einsum("bts,bsd->btd", weights, embedded)


def same(queries, keys):
    """Which entries of one stream belong to the examples of another's: [b t s]."""
    ids, other = queries["segment_ids"][:, :, None], keys["segment_ids"][:, None, :]
    return ((ids == other) & (ids != 0)).astype(jnp.float32)


class Task:
    METRICS = ("accuracy", "loss")
    STREAMS = (
        Stream("source"),
        Stream("target", fill={"labels": -1}),
        Stream("examples", fill={"label": -1}, one_each=True),
    )
    UNIT = "tokens"
    PIECES = False
    PACKS_EVALUATION = True
    SCORED = types.MappingProxyType(
        {"target": ("class", "loss", "source_sum"), "examples": ("class", "sums")}
    )
    ANSWERED = types.MappingProxyType({"examples": ("class",)})
    LOGITS = types.MappingProxyType({"examples": ("logits",)})
    FORMATS = ("text",)

    def __init__(self, config):
        self.config = config
        self.samples: list[int | None] = []  # what `encode` was given, in order

    @classmethod
    def fit(cls, config, train):
        return cls(config)

    @classmethod
    def load(cls, config, folder):
        return cls(config)

    def save(self, folder):
        (folder / "nothing.txt").write_text("")

    def encode(self, example, *, sample=None):
        """An odd sample doubles the first source token."""
        self.samples.append(sample)
        source, target = list(example["source"]), list(example["target"])
        if sample is not None and sample % 2:
            source = source[:1] + source
        return {
            "source": {"ids": np.array(source, np.int32)},
            "target": {
                "inputs": np.array([1, *target], np.int32),
                "labels": np.array([*target, 0], np.int32),
            },
            "examples": {"label": np.array([example["label"]], np.int32)},
        }

    def make_model(self, rngs):
        return Model(self.config.model.dim, self.config.model.dropout_rate, rngs)

    def loss(self, model, batch, *, rngs, label_smoothing):
        logits, long = model(batch, rngs)
        labels, label = batch["target"]["labels"], batch["examples"]["label"]
        losses = token_cross_entropy(logits, labels, label_smoothing=label_smoothing)
        total = jnp.sum(losses) + jnp.sum(token_cross_entropy(long, label))
        hits = jnp.sum((jnp.argmax(long, axis=-1) == label).astype(jnp.float32))
        count = jnp.sum(labels >= 0).astype(jnp.float32)
        return {
            "loss": Sum(total, count),
            "accuracy": Sum(hits, jnp.sum(label >= 0).astype(jnp.float32)),
        }

    def predict(self, model, batch):
        """Besides answers: the sum of each one's own source, which tells what it was beside."""
        logits, long = model(batch)
        source, target, examples = batch["source"], batch["target"], batch["examples"]
        ids, labels = source["ids"].astype(jnp.float32), target["labels"].astype(jnp.float32)
        sums = [
            jnp.einsum("bgs,bs->bg", same(examples, source), ids),
            jnp.einsum("bgt,bt->bg", same(examples, target), labels),
        ]
        return {
            "target": {
                "class": jnp.argmax(logits, axis=-1),
                "loss": token_cross_entropy(logits, target["labels"]),
                "source_sum": jnp.einsum("bts,bs->bt", same(target, source), ids),
            },
            "examples": {
                "class": jnp.argmax(long, axis=-1),
                "logits": long,
                "sums": jnp.stack(sums, axis=-1),
            },
        }

    @staticmethod
    def paths(config):
        return {}

    @staticmethod
    def options(config):
        return {}

    def scoring_settings(self):
        return ()

    def score(self, encoded, outputs):
        labels = encoded.flat["target"]["labels"]
        label = encoded.flat["examples"]["label"]
        metrics = {
            "accuracy": float(np.mean(outputs["examples"]["class"] == label)),
            "loss": float(np.sum(outputs["target"]["loss"], dtype=np.float64)) / len(labels),
        }
        return metrics, {"num_eval_tokens": len(labels)}

    def prediction_line(self, example, outputs):
        (answer,) = outputs["examples"]["class"]
        return f"{len(example['source'])} {answer} {outputs['target']['class'].tolist()}"

    def read_input(self, stream, *, format):
        for number, line in enumerate(stream, start=1):
            yield made(list(map(int, line.split())), number, "stdin")

    def is_blank(self, example):
        return not example["source"]

    def write_output(self, example, outputs, *, format):
        if outputs is None:
            return "\n"
        (answer,) = outputs["examples"]["class"]
        logits = outputs["examples"].get("logits")
        return f"{answer}" + ("" if logits is None else f"\t{logits.shape}") + "\n"


def made(source: list[int], line: int, file: str) -> dict[str, Any]:
    target = [(token + 1) % VOCABULARY for token in source]
    return {"source": source, "target": target, "label": len(source) > 5, "line": line} | {
        "file": file
    }


def examples(number: int, *, seed: int, longest: int = 9) -> list[dict[str, Any]]:
    """Pairs of 1 to `longest` tokens."""
    generator = random.Random(seed)
    lengths = [generator.randint(1, longest) for _ in range(number)]
    return [
        made([generator.randint(2, VOCABULARY - 2) for _ in range(length)], line, f"{seed}.txt")
        for line, length in enumerate(lengths, start=1)
    ]


class _Records(list):
    def __getitems__(self, keys):
        return [self[key] for key in keys]


def split(given: list[dict[str, Any]]) -> Split:
    content_hash = hashlib.sha256(json.dumps(given).encode()).hexdigest()
    return Split(_Records(given), lambda record, _: record, content_hash=content_hash, counts={})


def dataset() -> Dataset:
    """Train, dev and test."""
    sizes = itertools.count()
    splits = {name: split(examples(number, seed=next(sizes)))
              for name, number in (("train", 50), ("dev", 13), ("test", 9))}  # fmt: skip
    return Dataset("made_up", splits)


def config(**overrides: Any) -> ConfigDict:
    """The config of a small run; `data__pack="never"` sets data.pack."""
    config: Any = common.training_defaults()
    config.task, config.dataset, config.size = "pairs", "made_up", "tiny"
    config.batch_tokens, config.train_steps, config.train_epochs = 64, 6, None
    config.log_every_steps = config.checkpoint_every_steps = 1
    config.eval_every_steps = 3
    config.eval_batch_size = 4
    config.model = ConfigDict({"dim": 8, "dropout_rate": 0.0})
    config.data = ConfigDict({"max_length": 16, "pack": "always", "order_seed": 0})
    config.data.num_threads = 2
    for key, value in overrides.items():
        section, _, leaf = key.rpartition("__")
        (config[section] if section else config)[leaf] = value
    return config.lock()


def install(patch: Any) -> None:
    """Makes the task one of those there are, with its data set, for as long as `patch` lasts."""
    module = types.ModuleType("attention.tasks.pairs")
    vars(module)["Task"] = Task
    patch.setitem(sys.modules, module.__name__, module)
    names = tasks.names()
    patch.setattr(tasks, "names", lambda: (*names, "pairs"))
    patch.setattr(experiment, "open_dataset", lambda config: dataset())
