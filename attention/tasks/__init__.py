"""Tasks, one file each: how an example becomes arrays, a batch a loss, an output a score.

A task file defines a class `Task`; it is found by the file's name. `pos_tagging` shows its parts.
"""

from types import ModuleType

from attention import found_by_name


def names() -> tuple[str, ...]:
    """The tasks there are: the files of this folder."""
    return found_by_name.names_in(__path__)


def get(name: str) -> ModuleType:
    """The task's module; a `UserError` lists the names where there is none."""
    return found_by_name.load(__name__, name, names(), key="task")
