"""Values of overrides: from what was typed, or set by a program, to the type of the field."""

from __future__ import annotations

import ast
import contextlib
import json
import numbers
from collections.abc import Mapping
from typing import Any, NoReturn

from attention.configuration import durations
from attention.configuration.fields import Kind, plain_value
from attention.errors import UserError

_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_EXPECTED = {
    bool: "true or false",
    int: "an int",
    float: "a float, such as 0.001",
    str: "a string",
    tuple: "values separated by commas, such as 0.9,0.98",
}


def coerce(key: str, value: Any, kind: Kind, *, current: Any) -> Any:
    """Returns `value` as the leaf `key` takes it.

    Text is parsed by the leaf's kind; "None" sets an optional leaf back to None. An int is taken
    where a float is expected.

    Args:
      key: The dotted key, for the error and because `*_steps` keys take durations.
      value: Text from a command line, or a Python value.
      kind: What the leaf takes.
      current: The leaf's value now; the items of a tuple are read by the types of its items.

    Raises:
      UserError: names key, value and what is expected.
    """
    if durations.is_duration(key):
        return durations.canonical(value, key=key)
    if value is None or (value == "None" and kind.optional):
        if kind.optional:
            return None
        raise _wrong(key, value, kind)
    try:
        if kind.type is object:
            return _any_value(key, value)
        if kind.type is tuple:
            return _tuple(key, value, current or ())
        return _scalar(value, kind.type)
    except (ValueError, TypeError, SyntaxError) as error:
        if isinstance(error, UserError):
            raise
        raise _wrong(key, value, kind) from None


def _wrong(key: str, value: Any, kind: Kind) -> UserError:
    expected = _EXPECTED.get(kind.type, f"a {kind.type.__name__}")
    none = " or None" if kind.optional else ""
    return UserError(f"config key '{key}': expected {expected}{none}, got {value!r}")


def _scalar(value: Any, wanted: type) -> Any:
    """Returns a bool, int, float or str, or raises ValueError or TypeError."""
    if wanted is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in _BOOLS:
            return _BOOLS[value.strip().lower()]
        return _no()
    if isinstance(value, bool):
        return _no()
    if wanted is int and isinstance(value, str | numbers.Integral):
        return int(value)
    if wanted is float and isinstance(value, str | numbers.Real):
        return float(value)
    if wanted is str and isinstance(value, str):
        return str(value)
    return _no()


def _no() -> NoReturn:
    raise TypeError("another type is expected")


def _tuple(key: str, value: Any, current: tuple) -> tuple:
    """Returns a tuple from "0.8,0.9", "(0.8, 0.9)", "[0.8, 0.9]", "a,b" or a sequence."""
    types = {type(item) for item in current}
    wanted = types.pop() if len(types) == 1 else float if types == {int, float} else object
    if isinstance(value, str):
        value = _parse_items(value, plain_strings=wanted is str)
    if not isinstance(value, list | tuple):
        return _no()
    items = plain_value(value, key)
    scalar = wanted in (bool, int, float, str)
    return tuple(_scalar(item, wanted) if scalar else item for item in items)


def _parse_items(text: str, *, plain_strings: bool) -> tuple:
    stripped = text.strip()
    if not stripped:
        return ()
    try:
        parsed = parse_literal(stripped)
    except ValueError:
        if not plain_strings:
            raise
        if stripped[0] in "([" and stripped[-1] in ")]":
            stripped = stripped[1:-1]
        return tuple(part.strip() for part in stripped.split(",") if part.strip())
    return tuple(parsed) if isinstance(parsed, list | tuple) else (parsed,)


def _any_value(key: str, value: Any) -> Any:
    """Returns text as the Python or JSON literal it spells, else as it is."""
    if isinstance(value, str):
        try:
            value = parse_literal(value)
        except ValueError:
            return value
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = int(value)
    return plain_value(value, key)


def parse_literal(text: str) -> Any:
    """Returns the value of a Python or JSON literal.

    Raises:
      ValueError: if `text` is neither.
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return json.loads(text)  # true, false and null; a JSONDecodeError is a ValueError


def parse_section(key: str, value: Any) -> Mapping[str, Any]:
    """Returns the dict that an override of the section `key` spells.

    Raises:
      UserError: if it is no dict.
    """
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = parse_literal(value.strip())
    if isinstance(value, Mapping):
        return value
    raise UserError(
        f"config key '{key}' is a section, got {value!r}: set one of its keys, as in "
        f'--config.{key}.KEY=VALUE, or several: --config.{key}={{"KEY": VALUE}}'
    )
