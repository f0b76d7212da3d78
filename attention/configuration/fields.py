"""The fields of a config: how they are declared, listed by dotted key, and copied.

A config is a `ConfigDict` of sections (nested `ConfigDict`) and leaves: bool, int, float, str,
None, or tuples and dicts of these. A leaf that may be None, or of more than one type, is a
`FieldReference` that knows its type; every other leaf keeps the type of its default.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from ml_collections import ConfigDict, FieldReference

from attention.configuration.durations import is_duration
from attention.errors import UserError

_SCALARS = (bool, int, float, str)


class Kind(NamedTuple):
    """What values a leaf takes: `type` (object: any of them), and None as well if `optional`."""

    type: type
    optional: bool


def optional(value: Any, kind: type) -> FieldReference:
    """Declares a leaf of type `kind` that may also be None, with its default."""
    return FieldReference(value, field_type=kind)


def duration(value: int | str) -> FieldReference:
    """Declares a `*_steps` leaf: steps as an int, or "3epochs", or "5%" of the whole run."""
    return FieldReference(value, field_type=object)


def section_of(dataclass: type) -> ConfigDict:
    """Returns a section with the fields and defaults of a dataclass.

    Fields annotated `X | None` become typed optional leaves; fields of several types
    (`int | tuple[int, int]`) take a value of any type, which the dataclass itself checks.

    Raises:
      TypeError: if a field has no default.
    """
    hints = typing.get_type_hints(dataclass)
    section = ConfigDict()
    for field in dataclasses.fields(dataclass):
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        elif field.default is not dataclasses.MISSING:
            default = field.default
        else:
            raise TypeError(f"{dataclass.__qualname__}.{field.name} has no default value")
        kind = _kind_of_annotation(hints[field.name])
        plain = not kind.optional and kind.type is not object
        section[field.name] = default if plain else optional(default, kind.type)
    return section


def _kind_of_annotation(annotation: Any) -> Kind:
    types_ = set(_types_of(annotation))
    may_be_none = type(None) in types_
    types_.discard(type(None))
    single = types_.pop() if len(types_) == 1 else object
    return Kind(single if single in (*_SCALARS, tuple) else object, may_be_none)


def _types_of(annotation: Any) -> Iterator[type]:
    """Yields the types in an annotation: `Literal["a"] | tuple[int, int] | None` has three."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        yield from (type(value) for value in typing.get_args(annotation))
    elif origin in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _types_of(member)
    else:
        yield origin or annotation


def raw_fields(section: ConfigDict) -> dict[Any, Any]:
    """Returns the fields of one section, in order, with their references kept."""
    # ConfigDict.items() sorts the keys, which fails on the mixed keys that are reported below.
    fields: Any = section._fields
    return dict(fields)


def leaves(config: ConfigDict, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, value) of every leaf."""
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def is_data_path(key: str) -> bool:
    """Returns whether the dotted key names a file of the user's data: `data.*_path`."""
    return key.startswith("data.") and key.endswith("_path")


def sections(config: ConfigDict, prefix: str = "") -> Iterator[str]:
    """Yields the dotted key of every section below the top."""
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            yield f"{prefix}{key}"
            yield from sections(value, f"{prefix}{key}.")


def kind(section: ConfigDict, key: str) -> Kind:
    """Returns what values the leaf `key` of `section` takes."""
    field = raw_fields(section)[key]
    if isinstance(field, FieldReference):
        return Kind(field.get_type(), True)
    if field is None:
        return Kind(object, True)
    return Kind(tuple if isinstance(field, list) else type(field), False)


def normalized(config: ConfigDict | dict, prefix: str = "") -> ConfigDict:
    """Returns a deep copy of a config with plain values, sharing nothing with it.

    Lists become tuples, links between fields become their values, and the types of optional
    leaves are kept.

    Raises:
      UserError: names the field whose key is no plain string or whose value no config can hold.
    """
    fields = raw_fields(config) if isinstance(config, ConfigDict) else config
    copy = ConfigDict()
    for key, field in fields.items():
        check_key(key, prefix)
        name = f"{prefix}{key}"
        value = field.get() if isinstance(field, FieldReference) else field
        if isinstance(value, ConfigDict | dict):
            copy[key] = normalized(value, f"{name}.")
            continue
        value = plain_value(value, name)
        if is_duration(name):
            copy[key] = duration(value)
        elif isinstance(field, FieldReference):
            copy[key] = optional(value, field.get_type())
        else:
            copy[key] = value
    return copy


def check_key(key: Any, prefix: str) -> None:
    """Raises UserError unless `key` can be part of a dotted key."""
    where = f"config section '{prefix[:-1]}'" if prefix else "the config"
    if not isinstance(key, str):
        raise UserError(f"{where} has the key {key!r} ({type(key).__name__}): keys must be strings")
    if not key or "." in key:
        raise UserError(f"{where} has the key {key!r}: keys must be non-empty and have no dots")


def plain_value(value: Any, name: str) -> Any:
    """Returns a leaf's value with lists as tuples, or raises UserError naming the leaf."""
    if value is None or type(value) in _SCALARS:
        return value
    for scalar in _SCALARS:  # such as NumPy's float64, which is a float
        if isinstance(value, scalar):
            return scalar(value)
    if isinstance(value, list | tuple):
        return tuple(plain_value(item, f"{name}[{i}]") for i, item in enumerate(value))
    if isinstance(value, dict):
        for key in value:
            check_key(key, f"{name}.")
        return {key: plain_value(item, f"{name}.{key}") for key, item in value.items()}
    raise UserError(
        f"config field '{name}' holds {value!r} ({type(value).__name__}): a config holds bool, "
        "int, float, str, None, and tuples and dicts of these"
    )
