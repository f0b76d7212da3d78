"""Data sets by file name: one module each, with `TASKS` and `load(*, task, paths) -> Dataset`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from attention.errors import UserError, did_you_mean


def names(task: str | None = None) -> tuple[str, ...]:
    """Returns the names of all data sets, or of those made for a task."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name for name in found if task is None or task in get(name).TASKS)


def get(name: str) -> ModuleType:
    """Returns the module of a data set, or raises a UserError that lists the names."""
    known = [module.name for module in pkgutil.iter_modules(__path__)]
    if name not in known:
        raise UserError(
            f"data set '{name}' does not exist{did_you_mean(name, known)}; "
            f"dataset= takes: {', '.join(sorted(known))}"
        )
    return importlib.import_module(f"{__name__}.{name}")
