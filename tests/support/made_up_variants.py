"""Attention variants that do not pack, or know one direction only."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

from attention import variants
from attention.variants import scaled_dot


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


def install_unpackable(patch: Any) -> str:
    """Makes a variant whose only fault is that it cannot keep packed examples apart; its name."""
    module = ModuleType("attention.variants.unpackable")
    vars(module).update({k: v for k, v in vars(scaled_dot).items() if not k.startswith("__")})
    vars(module)["MODES"] = scaled_dot.MODES - {"packed"}
    patch.setitem(sys.modules, module.__name__, module)
    names = variants.names()
    patch.setattr(variants, "names", lambda: (*names, "unpackable"))
    return "unpackable"
