"""`model.attention.implementation`: what "auto" means on this machine, decided once a run."""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from attention.configuration.fields import leaves

_KEY = "model.attention.implementation"


def choose_implementation(config: ConfigDict, *, saved: ConfigDict | None = None) -> ConfigDict:
    """Returns a config in which "auto" has become what suits this device, or what a run began with.

    Args:
      config: A resolved config, which is not changed. One whose variant has no such option is
        returned as it is.
      saved: The config of the run that is to go on.
    """
    if dict(leaves(config)).get(_KEY) != "auto":
        return config
    before = {} if saved is None else dict(leaves(saved))
    name = before.get(_KEY) or _measured(config)
    chosen = config.copy_and_resolve_references()
    chosen.unlock()
    with chosen.ignore_type():
        chosen.update_from_flattened_dict({_KEY: name})
    return chosen.lock()


def _measured(config: Any) -> str:
    from attention.core import implementations  # imports JAX

    way = implementations.choose(
        "auto",
        length=config.data.max_length,
        size=config.model.dim // config.model.num_heads,
        dtype=config.dtype,
    )
    return way.name
