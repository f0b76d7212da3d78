"""Loads a data set by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attention.data import sources
from attention.data.dataset import Dataset
from attention.errors import UserError, did_you_mean

NO_PATHS: Mapping[str, str | None] = MappingProxyType({})


def load_dataset(name: str, *, task: str, paths: Mapping[str, str | None] = NO_PATHS) -> Dataset:
    """Returns a data set, prepared on first use and read by index from then on.

    Args:
      name: a name of `sources.names(task)`.
      task: the task it is for.
      paths: read by `files` alone: "train", "dev" and "test" to data.train_path, data.eval_path
        and data.test_path. The config's check refuses them with another data set.

    Raises:
      UserError: for an unknown name, a data set of another task, missing or wrong files.
    """
    allowed = sources.names(task)
    source = sources.get(name)
    if name not in allowed:
        raise UserError(
            f"data set '{name}' is for {' and '.join(source.TASKS)}, not for {task}"
            f"{did_you_mean(name, allowed)}; dataset= takes: {', '.join(allowed)}"
        )
    return source.load(task=task, paths=paths)
