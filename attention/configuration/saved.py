"""Configs as JSON, and the hash that names a config.

The JSON is the config as nested objects, with one more member, `__types__`: the types of the
leaves that may be None, by dotted key. Tuples are written as arrays; since a config holds no
lists, each array is read back as a tuple.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict, FieldReference

from attention.configuration.differences import is_about_running
from attention.configuration.fields import leaves, normalized, optional, raw_fields
from attention.errors import UserError

_TYPES = "__types__"
_TYPE_NAMES = {"bool": bool, "int": int, "float": float, "str": str, "tuple": tuple, "any": object}


def to_json(config: ConfigDict) -> str:
    """Returns the config as JSON that `from_json` reads back to an equal config."""
    config = normalized(config)
    document = {**config.to_dict(), _TYPES: dict(sorted(_optional_types(config)))}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, *, source: str = "config.json") -> ConfigDict:
    """Returns the config that `to_json` wrote, equal to it and locked.

    Args:
      text: The JSON.
      source: What to call it in errors, such as a file's path.

    Raises:
      UserError: if the text is no JSON object, or its `__types__` are not understood.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UserError(f"{source} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UserError(f"{source}: expected a JSON object, got {type(document).__name__}")
    types = document.pop(_TYPES, {})
    if not isinstance(types, dict):
        raise UserError(f"{source}: {_TYPES} must be an object, got {types!r}")
    config = normalized(document)
    for key, name in types.items():
        section_key, _, leaf = key.rpartition(".")
        try:
            section: Any = config[section_key] if section_key else config
            value = section[leaf]
            kind = _TYPE_NAMES[name]
        except (KeyError, TypeError):
            raise UserError(f"{source}: {_TYPES} has {key}={name!r}, no key or no type") from None
        with section.ignore_type():
            section[leaf] = optional(value, kind)
    return config.lock()


def read_saved(workdir: str | Path) -> ConfigDict | None:
    """Returns the config saved in a run directory, or None where there is none.

    Raises:
      UserError: if the file is there and cannot be read.
    """
    path = Path(workdir).expanduser() / "config.json"
    try:
        return from_json(path.read_text(encoding="utf-8"), source=str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"cannot read {path}: {reason}") from None


def _optional_types(config: ConfigDict, prefix: str = ""):
    names = {kind: name for name, kind in _TYPE_NAMES.items()}
    for key, field in raw_fields(config).items():
        if isinstance(field, ConfigDict):
            yield from _optional_types(field, f"{prefix}{key}.")
        elif isinstance(field, FieldReference):
            yield f"{prefix}{key}", names.get(field.get_type(), "any")


def in_hash(key: str) -> bool:
    """Returns whether the dotted key is part of `config_hash`: whether it can change the result.

    Left out are keys that are about running, and which implementation of the same formula runs.
    """
    return not is_about_running(key) and key.rpartition(".")[2] != "implementation"


def config_hash(config: ConfigDict) -> str:
    """Returns 16 hex digits that are the same for configs that train the same model."""
    hashed: dict[str, Any] = {key: value for key, value in leaves(config) if in_hash(key)}
    text = json.dumps(hashed, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
