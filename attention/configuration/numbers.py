"""Which keys are only numbers of a training step: runs that differ in no other share a program."""

from __future__ import annotations

import json
from typing import Any

from ml_collections import ConfigDict

from attention.configuration.differences import is_about_running
from attention.configuration.fields import leaves

# Inputs of the compiled step, or of the host alone; never baked into a program.
NUMBERS = frozenset(
    {
        *("seed", "label_smoothing", "train_steps", "train_epochs", "early_stopping_evaluations"),
        *("optimizer.learning_rate", "optimizer.weight_decay", "optimizer.warmup_steps"),
        *("optimizer.b1", "optimizer.b2", "optimizer.clip_norm", "data.order_seed"),
    }
)
# Numbers too, except that a model built with 0 has nothing to drop with.
RATES = frozenset({"model.dropout_rate", "model.word_dropout_rate", "model.attention_dropout_rate"})


def is_number(key: str) -> bool:
    """Returns whether runs whose values of the dotted key differ may share a program."""
    return key in NUMBERS | RATES or (is_about_running(key) and key != "parallelism")


def same_program(key: str, a: Any, b: Any) -> bool:
    """Returns whether runs with these two values of a key can share a program."""
    if key in RATES:
        return _drops(a) == _drops(b)
    return is_number(key) or a == b


def program_of(config: ConfigDict) -> str:
    """Returns a text that is the same for configs whose runs can share data and programs."""
    kept: dict[str, Any] = {}
    for key, value in leaves(config):
        if key in RATES:
            kept[key] = _drops(value)
        elif not is_number(key):
            kept[key] = value
    return json.dumps(kept, sort_keys=True)


def _drops(rate: float | None) -> bool | None:
    """Returns what a rate says of the program; None: the same as another rate does."""
    return None if rate is None else bool(rate)
