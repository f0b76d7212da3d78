"""The attention mechanisms of a model: a config has a section for each place that takes one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict

# Self-attention (of the encoder, where there are two sides), that of the decoder, and cross.
KEYS = ("model.attention", "model.decoder_attention", "model.cross_attention")


def attention_sections(config: Any) -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, section) of each place; a section has `variant` and its options."""
    model: Any = config.get("model", {})
    for key in KEYS:
        section = model.get(key.removeprefix("model."))
        if isinstance(section, ConfigDict) and "variant" in section:
            yield key, section


def looks_back(config: Any, key: str) -> bool:
    """Whether the attention of a place, one of KEYS, is causal."""
    if key == "model.attention":
        return config.model.get("direction", "bidirectional") != "bidirectional"
    return key == "model.decoder_attention"


def own_options(section: Any) -> dict[str, Any]:
    """Returns a section's options, those of the variant's own `Config`."""
    return {key: value for key, value in section.items() if key != "variant"}
