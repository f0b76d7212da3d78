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
    smoothing = values.get("label_smoothing")
    if smoothing and values.get("model.pointer") == "alone":
        # Most tokens stand nowhere in a source: their log p is the floor, and it has no slope.
        raise UserError(
            f"label_smoothing={smoothing} asks for some probability of every token, and "
            "model.pointer='alone' can give it to those of the source alone, so that about "
            f"{87 * smoothing:.1f} nats of each token's loss could never be learned: set "
            "label_smoothing=0, or model.pointer to mixed"
        )
