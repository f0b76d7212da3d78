"""Attention, an RNN and a CNN on more and more training examples: a study.

    python sweep.py --config=configs/studies/data_size.py --workdir=sweeps/size-tagging
    python sweep.py --config=configs/studies/data_size.py:task=sentiment \
        --workdir=sweeps/size-sentiment
    python compare.py sweeps/size-tagging sweeps/size-sentiment --out=reports/size

Does little data favour a convolution, and much data attention? Each variant trains on 2^6, 2^7, …
examples and on all of them. A smaller part lies within each larger one and is the same for all
variants and seeds (`data.train_examples`); the vocabulary is built of it alone. The model, its
dropout and the number of steps are the same at every size, so that no size trains longer than
another: on a small part that is many epochs, of which the checkpoint best on dev is taken, which
is scored every 20 of 400 steps. dev and test are whole. Parameters are equal within 1 % of the
encoder's, between variants and, but for the embeddings, between sizes. Two learning rates, of which
compare.py takes the better by dev for each variant and size, and draws the score against the size.
The first half of the sweep is a study of its own at one rate (`--trials=63`). About half a minute
a run on 2 CPU cores.

Arguments: task=pos_tagging (default) or sentiment, examples= (a number, or all: the default),
variant=, dataset=, seed=.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from attention.configuration.fields import optional
from attention.configuration.points import Point, grid
from attention.errors import UserError
from configs import common

VARIANTS = ("scaled_dot", "rnn", "cnn")
EXAMPLES = (64, 128, 256, 512, 1024, 2048)
ALL = "all"
# What all of a data set are: a plot needs the number.
NUMBER_OF_ALL = {"turkish_treebank": 3881, "rotten_tomatoes": 6884}
DATASETS = {"pos_tagging": "turkish_treebank", "sentiment": "rotten_tomatoes"}
LEARNING_RATES = (5e-3, 2e-3)


def get_config(arg: str = "") -> ConfigDict:
    """Returns the config for the argument described above."""
    defaults = {"task": "pos_tagging", "examples": ALL, "variant": "scaled_dot", "dataset": ""}
    chosen = common.read_argument(arg, {**defaults, "seed": 0}, choices={"task": tuple(DATASETS)})
    dataset = chosen.dataset or DATASETS[chosen.task]
    config: Any = (
        _recipe(chosen.task)
        .get_config(f"variant={chosen.variant},dataset={dataset},seed={chosen.seed}")
        .unlock()
    )
    config.data.train_examples = optional(_number(chosen.examples, dataset), int)
    config.train_epochs, config.train_steps = None, 400
    config.eval_every_steps = config.checkpoint_every_steps = 20
    config.optimizer.learning_rate = LEARNING_RATES[0]
    return config.lock()


def _recipe(task: str) -> ModuleType:
    from configs.studies import sentiment_variants, tagging_variants

    return {"pos_tagging": tagging_variants, "sentiment": sentiment_variants}[task]


def _number(examples: str, dataset: str) -> int | None:
    """Returns how many training examples are asked for; None: all, of a number not known here."""
    if examples == ALL:
        return NUMBER_OF_ALL.get(dataset)
    if not examples.isascii() or not examples.isdigit() or not int(examples):
        raise UserError(
            f"config argument examples={examples!r}: expected an int of 1 or more, or all"
        )
    return int(examples)


def sweep() -> list[Point]:
    """Returns each size with each variant and seed, first all with one learning rate."""
    from configs.studies import parts

    return grid(
        {
            "optimizer.learning_rate": LEARNING_RATES,
            "arg.examples": (*EXAMPLES, ALL),
            "arg.variant": VARIANTS,
            "arg.seed": parts.SEEDS,
        }
    )
