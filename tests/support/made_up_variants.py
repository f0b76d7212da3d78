"""Attention variants that do not pack, or know one direction only."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Literal


@dataclasses.dataclass(frozen=True)
class PlainConfig:
    num_kv_heads: int | None = None


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
    window: int | tuple[int, int] = 3
    gates: tuple[float, ...] = (0.5, 0.25)
    kernel: Literal["elu", "relu"] = "elu"
    scale: float | None = 2.0

    def __post_init__(self) -> None:
        if self.kernel not in ("elu", "relu"):
            raise ValueError(f"kernel={self.kernel!r}: expected elu or relu")


VARIANTS = {
    "scaled_dot": SimpleNamespace(
        Config=PlainConfig,
        MODES=frozenset({"bidirectional", "causal", "cross", "decode", "packed"}),
        POSITIONS=("rope",),
    ),
    "recurrent": SimpleNamespace(Config=RecurrentConfig, MODES=frozenset({"causal"})),
    "mixing": SimpleNamespace(Config=PlainConfig, MODES=frozenset({"bidirectional"})),
}
