"""Resolving: what a config leaves open is decided once, and then saved."""

from __future__ import annotations

import os
from typing import Any

from ml_collections import ConfigDict

from attention.configuration import durations
from attention.configuration.attention_sections import attention_sections
from attention.configuration.fields import is_data_path, leaves, normalized


def resolve(config: ConfigDict, *, saved: ConfigDict | None = None) -> ConfigDict:
    """Returns a new, locked config without `auto` values, its durations and paths spelled one way.

    `data.pack` becomes `always` where every variant of the model has the mode `packed`, else
    `never`. Paths of data become absolute, without symbolic links: they mean the same files in any
    directory.

    Args:
      config: A checked config, which is not changed.
      saved: The resolved config of the run that is to go on, if any: an `auto` takes its value
        from there.
    """
    resolved = normalized(config)
    for key, value in list(leaves(resolved)):
        if durations.is_duration(key):
            resolved.update_from_flattened_dict({key: durations.canonical(value, key=key)})
        elif is_data_path(key) and value:
            path = os.path.realpath(os.path.expanduser(value))
            resolved.update_from_flattened_dict({key: path})
    before = dict(leaves(saved)) if saved is not None else {}
    data: Any = resolved.get("data", {})
    if data.get("pack") == "auto":
        data.pack = before.get("data.pack") or _packing(resolved)
    return resolved.lock()


def _packing(config: ConfigDict) -> str:
    from attention import variants  # imports JAX

    names = [section["variant"] for _, section in attention_sections(config)]
    packs = [name for name in names if "packed" in variants.get(name).MODES]
    # A model without attention, a recurrent one, begins each example of a row anew as well.
    return "always" if "model" in config and packs == names else "never"
