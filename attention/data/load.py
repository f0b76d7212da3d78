"""Loads a data set by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attention.data import sources
from attention.data.dataset import Dataset
from attention.data.subset import with_train_examples
from attention.data.translation_catalogue import load_translation_catalogue
from attention.errors import UserError, did_you_mean

NOTHING: Mapping[str, Any] = MappingProxyType({})


def load_dataset(
    name: str,
    *,
    task: str,
    paths: Mapping[str, str | None] = NOTHING,
    options: Mapping[str, Any] = NOTHING,
    train_examples: int | None = None,
) -> Dataset:
    """Returns a data set, prepared on first use and read by index from then on.

    Args:
      name: a name of `sources.names(task)`; for translation also one of the TFDS catalogue with its
        config, "ted_hrlr_translate/pt_to_en".
      task: the task it is for.
      paths: read by `files` alone: "train", "dev" and "test" to data.train_path, data.eval_path
        and data.test_path, or "train_source" to data.train_source_path and so on. The config's
        check refuses them with another data set.
      options: what a data set can be asked for, by key of `data` in the config:
        "source_language" and "target_language", or "distance". None stands for its own choice.
      train_examples: how many there are to be in the training split; None: all.

    Raises:
      UserError: for an unknown name, a data set of another task, an option that means nothing to
        it, missing or wrong files, fewer training examples.
    """
    dataset = _load(name, task=task, paths=paths, options=options)
    return with_train_examples(dataset, train_examples)


def _load(
    name: str, *, task: str, paths: Mapping[str, str | None], options: Mapping[str, Any]
) -> Dataset:
    if task == "translation" and "/" in name:
        return load_translation_catalogue(name, options=options)
    allowed = sources.names(task)
    source = sources.get(name)
    if name not in allowed:
        raise UserError(
            f"data set '{name}' is for {' and '.join(source.TASKS)}, not for {task}"
            f"{did_you_mean(name, allowed)}; dataset= takes: {', '.join(allowed)}"
        )
    understood = getattr(source, "OPTIONS", ())
    if isinstance(understood, Mapping):
        understood = understood.get(task, ())
    for key, value in options.items():
        if value is not None and key not in understood:
            raise UserError(f"data.{key}={value!r} means nothing to dataset={name}")
    return source.load(task=task, paths=paths, options=options)
