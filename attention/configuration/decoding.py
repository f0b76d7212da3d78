"""Checks of `decode`: what must agree where targets are searched for, or drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attention.errors import UserError

# What only draws read, and the values that change nothing.
_OF_DRAWS = {"decode.top_k": 0, "decode.top_p": 1.0, "decode.seed": 0}


def check_decoding(values: Mapping[str, Any]) -> None:
    """Refuses a search that is also to draw, and options of draws where there are none.

    Args:
      values: the leaves of a config by their dotted keys, their ranges checked.
    """
    temperature, beam_size = values.get("decode.temperature", 0.0), values.get("decode.beam_size")
    if temperature and beam_size != 1:
        raise UserError(
            f"decode.temperature={temperature} draws the tokens of a hypothesis, and "
            f"decode.beam_size={beam_size} searches for the best one: set decode.beam_size to 1, "
            "or decode.temperature to 0"
        )
    for key, unused in _OF_DRAWS.items():
        if not temperature and values.get(key, unused) != unused:
            raise UserError(
                f"{key}={values[key]} is read only where tokens are drawn: set decode.temperature "
                "above 0 (and decode.beam_size to 1)"
            )
