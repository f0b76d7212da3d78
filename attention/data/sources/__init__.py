"""Data sets by file name, each with `TASKS` and `load(*, task, paths, options) -> Dataset`.

One that can be asked for something names it in `OPTIONS`: keys of `data` in the config, or, where
they are not the same for all its tasks, such keys by task.
"""

from __future__ import annotations

from types import ModuleType

from attention import found_by_name


def names(task: str | None = None) -> tuple[str, ...]:
    """Returns the names of all data sets, or of those made for a task."""
    found = found_by_name.names_in(__path__)
    return tuple(name for name in found if task is None or task in get(name).TASKS)


def get(name: str) -> ModuleType:
    """Returns the module of a data set, or raises a UserError that lists the names."""
    return found_by_name.load(__name__, name, names(), key="dataset")
