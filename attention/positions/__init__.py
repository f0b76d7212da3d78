"""Position schemes, one file each; the file name is what `model.position` accepts.

A file has `PLACE`, where the scheme acts ("nowhere", "input": added to the model's input,
"attention": inside each attention layer), and `make(width, *, max_length, rngs)`.
"""

from types import ModuleType

from flax import nnx

from attention import found_by_name
from attention.positions.none import NoPosition


def names() -> tuple[str, ...]:
    """Returns what `model.position` accepts."""
    return found_by_name.names_in(__path__)


def get(name: str) -> ModuleType:
    """Returns the module of a position scheme; an unknown name raises UserError."""
    return found_by_name.load(__name__, name, names(), key="model.position")


def place(name: str) -> str:
    """Returns where a scheme acts: "nowhere", "input" or "attention"."""
    return get(name).PLACE


def make(name: str, width: int, *, max_length: int | None, rngs: nnx.Rngs) -> NoPosition:
    """Makes a position scheme.

    Args:
        name: one of `names()`.
        width: the size of the vectors it acts on: that of the model for a scheme at the input, that
            of a head for one inside attention.
        max_length: the number of positions, for schemes with a table.
        rngs: for the initial parameters.

    Raises:
        UserError: the name is unknown, or the scheme cannot have these sizes.
    """
    return get(name).make(width, max_length=max_length, rngs=rngs)
