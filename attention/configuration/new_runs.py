"""Refusals for runs that begin; those that have begun go on, and are opened, as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention.errors import UserError


def check_new_run(values: Mapping[str, Any]) -> None:
    """Refuses what trains, but not as its numbers say.

    Args:
      values: the leaves of a checked config by their dotted keys.
    """
    _check_one_vocabulary(values)
    smoothing = values.get("label_smoothing")
    if smoothing and values.get("model.pointer") == "alone":
        # Most tokens stand nowhere in a source: their log p is the floor, and it has no slope.
        raise UserError(
            f"label_smoothing={smoothing} asks for some probability of every token, and "
            "model.pointer='alone' can give it to those of the source alone, so that about "
            f"{87 * smoothing:.1f} nats of each token's loss could never be learned: set "
            "label_smoothing=0, or model.pointer to mixed"
        )


def _check_one_vocabulary(values: Mapping[str, Any]) -> None:
    """Refuses what takes an id for the same word on both sides, where it is another on each."""
    if values.get("data.shared_vocabulary", True) or values.get("data.tokenizer") == "bytes":
        return
    allowed = {"model.tied_embeddings": ("none", "output"), "model.pointer": ("none",)}
    for key, harmless in allowed.items():
        value = values.get(key, "none")
        if value not in harmless:
            raise UserError(
                f"{key}={value!r} needs one vocabulary of both languages, and "
                f"data.shared_vocabulary is false: set that to true, or {key} to "
                f"{' or '.join(harmless)}"
            )
