"""`model.*attention.implementation`: what "auto" means on this machine, decided once a run."""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from attention.configuration.attention_sections import attention_sections, looks_back
from attention.configuration.fields import leaves


def choose_implementation(config: ConfigDict, *, saved: ConfigDict | None = None) -> ConfigDict:
    """Returns a config in which "auto" has become what suits this device, or what a run began with.

    Args:
      config: A resolved config, which is not changed. One whose variants have no such option is
        returned as it is.
      saved: The config of the run that is to go on.
    """
    places = {f"{key}.implementation": key for key, _ in attention_sections(config)}
    now = dict(leaves(config))
    open_keys = [key for key in places if now.get(key) == "auto"]
    if not open_keys:
        return config
    before = {} if saved is None else dict(leaves(saved))
    chosen = config.copy_and_resolve_references()
    chosen.unlock()
    with chosen.ignore_type():
        chosen.update_from_flattened_dict(
            {key: before.get(key) or _measured(config, places[key]) for key in open_keys}
        )
    return chosen.lock()


def _measured(config: Any, place: str) -> str:
    from attention.core import implementations  # imports JAX

    way = implementations.choose(
        "auto",
        length=config.data.max_length,
        size=config.model.dim // config.model.num_heads,
        dtype=config.dtype,
        causal=looks_back(config, place),
    )
    return way.name
