"""Which leaves of a config are read: a key that nothing reads is a defect."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ml_collections import ConfigDict

from attention.configuration.fields import leaves, raw_fields

# Reading every field to copy, compare, show or check a dataclass is no use of any of them.
_WHOLE_OBJECT = frozenset(
    {
        "__init__",
        "__post_init__",
        "__eq__",
        "__hash__",
        "__repr__",
        "wrapper",
        "replace",
        "_replace",
        "_check_fixed",
    }
    | {"_asdict_inner", "_astuple_inner", "asdict", "astuple"}
)


class _Listed(str):
    """A key that came from listing a section, as in `f(**section)`; using it is no read by name."""

    __slots__ = ()


class RecordingConfig(ConfigDict):
    """A config that notes the dotted keys of the leaves read by name: `c.a.b`, `c["a"]`, `get`.

    Listing a section (`keys`, `items`, `to_dict`, `**section`) reads nothing by name, so hashing,
    saving and comparing configs does not count.
    """

    def __init__(self, config: ConfigDict, reads: set[str], prefix: str = "") -> None:
        super().__init__()
        for key, field in raw_fields(config).items():
            if isinstance(field, ConfigDict):
                field = RecordingConfig(field, reads, f"{prefix}{key}.")
            self[key] = field
        object.__setattr__(self, "_reads", reads)
        object.__setattr__(self, "_prefix", prefix)
        self.lock()

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        reads = self.__dict__.get("_reads")
        by_name = not isinstance(key, _Listed) and "." not in key  # a.b comes back here as b
        if reads is not None and by_name and not isinstance(value, ConfigDict):
            reads.add(f"{self._prefix}{key}")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        return [_Listed(key) for key in super().__iter__()]

    def items(self, preserve_field_references: bool = False) -> list[tuple[str, Any]]:
        if preserve_field_references:
            return list(super().items(preserve_field_references=True))
        return [(key, self[key]) for key in self.keys()]

    def values(self, preserve_field_references: bool = False) -> list[Any]:
        return [value for _, value in self.items(preserve_field_references)]

    def to_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return _plain(self).to_dict(*args, **kwargs)


def _plain(config: ConfigDict) -> ConfigDict:
    copy = ConfigDict()
    for key, field in raw_fields(config).items():
        copy[key] = _plain(field) if isinstance(field, ConfigDict) else field
    return copy


@contextmanager
def recorded_fields(sections: Mapping[type, str], reads: set[str]) -> Iterator[None]:
    """Adds to `reads` the fields read from dataclasses that are built from sections of a config.

    Args:
      sections: The dotted key of the section by dataclass, as in
        {EncoderConfig: "model", variants.get("scaled_dot").Config: "model.attention"}.
      reads: The set of a `RecordingConfig`, which building such an object as
        `EncoderConfig(**config.model)` does not add to.
    """
    before = {cls: cls.__dict__.get("__getattribute__") for cls in sections}
    for cls, section in sections.items():
        cls.__getattribute__ = _recording(cls, section, reads)
    try:
        yield
    finally:
        for cls, original in before.items():
            if original is None:
                del cls.__getattribute__
            else:
                cls.__getattribute__ = original


def _recording(cls: type, section: str, reads: set[str]):
    fields = frozenset(cls.__dataclass_fields__)
    original = cls.__getattribute__

    def read(self: Any, name: str) -> Any:
        if name in fields and not _is_whole(sys._getframe(1), self):
            reads.add(f"{section}.{name}")
        return original(self, name)

    return read


def _is_whole(caller: Any, target: Any) -> bool:
    name = caller.f_code.co_name
    if name in ("__init__", "__post_init__"):  # its own; the constructor of a module is a use
        return caller.f_locals.get("self") is target
    return name in _WHOLE_OBJECT


def unread(config: ConfigDict, reads: Iterable[str]) -> list[str]:
    """Returns the dotted keys of the leaves that are not among `reads`."""
    return sorted({key for key, _ in leaves(_plain(config))} - set(reads))
