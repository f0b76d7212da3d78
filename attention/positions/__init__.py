"""Position schemes, one file each; the file name is what `model.position` accepts.

A file has

- `PLACE`, where the scheme acts: "nowhere", "input" (vectors for the model's input) or "attention"
  (inside each attention layer);
- `Config`, a frozen dataclass of its options, which become `model.positions.<name>.*`;
- `make(config, width, *, num_heads, max_length, causal, rngs)`, which returns a `PositionScheme`.

`scheme.py` holds what they share. Everything here takes a scheme as a name, which stands for its
default Config, as a Config, or as None, which stands for the scheme "none".
"""

from types import ModuleType
from typing import Any

from flax import nnx

from attention import found_by_name
from attention.errors import UserError
from attention.positions.scheme import PositionScheme

_SHARED = "scheme"


def names() -> tuple[str, ...]:
    """Returns what `model.position` accepts."""
    return tuple(name for name in found_by_name.names_in(__path__) if name != _SHARED)


def get(name: str) -> ModuleType:
    """Returns the module of a position scheme; an unknown name raises UserError."""
    return found_by_name.load(__name__, name, names(), key="model.position")


def resolve(position: Any) -> Any:
    """Returns the Config that a name, a Config or None stands for; raises UserError for others."""
    if position is None or isinstance(position, str):
        return get(name_of(position)).Config()
    name_of(position)
    return position


def name_of(position: Any) -> str:
    """Returns the name of the scheme that a name, a Config or None stands for.

    Raises:
        UserError: an unknown name, or a thing that is none of these.
    """
    if position is None or isinstance(position, str):
        name = "none" if position is None else position
        get(name)
        return name
    package, _, name = type(position).__module__.rpartition(".")
    if package != __name__ or name not in names() or not isinstance(position, get(name).Config):
        raise UserError(
            f"model.position is of type {type(position).__name__}, neither a name nor the Config "
            f"of a position scheme: choose one of {', '.join(names())}"
        )
    return name


def place(position: Any) -> str:
    """Returns where a scheme acts: "nowhere", "input" or "attention"."""
    return get(name_of(position)).PLACE


def make(
    position: Any,
    width: int,
    *,
    num_heads: int = 1,
    max_length: int | None = None,
    causal: bool = False,
    rngs: nnx.Rngs,
) -> PositionScheme:
    """Makes a position scheme.

    Args:
        position: one of `names()`, or the Config of one.
        width: the size of the vectors it acts on: that of the model for a scheme at the input, that
            of a head for one inside attention.
        num_heads: of the queries, for schemes with something for each head.
        max_length: the number of positions, for schemes with a table.
        causal: whether no query sees a later key, for schemes that then need nothing for those.
        rngs: for the initial parameters.

    Raises:
        UserError: the name is unknown, or the scheme cannot have these sizes.
    """
    return get(name_of(position)).make(
        resolve(position),
        width,
        num_heads=num_heads,
        max_length=max_length,
        causal=causal,
        rngs=rngs,
    )
