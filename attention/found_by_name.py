"""Things found by file name: a folder holds one file a thing, and nothing else."""

import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType

from attention.errors import UserError, did_you_mean


def names_in(path: Iterable[str]) -> tuple[str, ...]:
    """Returns the sorted names of the modules of a package, given its `__path__`."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(path)))


def load(package: str, name: str, allowed: tuple[str, ...], *, key: str) -> ModuleType:
    """Imports `package.name`.

    Raises:
        UserError: the name is not among the allowed ones; says the nearest, all of them, and `key`,
            the config key or argument to change.
    """
    if name not in allowed:
        raise UserError(
            f"{key}={name!r} is not known{did_you_mean(name, allowed)}: "
            f"choose one of {', '.join(allowed)}"
        )
    return importlib.import_module(f"{package}.{name}")
