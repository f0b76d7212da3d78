"""Which variants, options and positions the conformance suite runs over."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from types import ModuleType
from typing import Any, NamedTuple

from attention import positions, variants

# Sizes that differ pairwise, so that a swapped axis cannot fit; heads have several divisors.
BATCH, QUERIES, KEYS, HEADS, HEAD_DIM = 3, 5, 7, 4, 6
LENGTH, DIM, CONTEXT_DIM = 11, 24, 10


class LayerCase(NamedTuple):
    """One layer to make: a variant, one of its options set, a position scheme."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    position: str | None = None

    def __str__(self) -> str:
        parts = [self.name, *(f"{key}={value}" for key, value in self.options)]
        return "-".join([*parts, self.position] if self.position else parts)


def option_sets(name: str) -> list[tuple[tuple[str, Any], ...]]:
    """Returns the defaults, then each example value that a Config field declares, alone."""
    fields = dataclasses.fields(variants.get(name).Config)
    examples = [(f.name, value) for f in fields for value in f.metadata.get("examples", ())]
    return [(), *((example,) for example in examples)]


def layer_cases(mode: str) -> list[LayerCase]:
    """Returns every variant that has the mode, over its options and over inner positions."""
    inner = [name for name in positions.names() if positions.place(name) == "attention"]
    cases = []
    for name in variants.names():
        if mode in variants.get(name).MODES:
            cases += [LayerCase(name, options) for options in option_sets(name)]
            cases += [LayerCase(name, (), position) for position in inner if mode != "cross"]
    return cases


def attend_cases() -> list[tuple[str, int, bool]]:
    """Returns (variant, key heads, causal) for every variant that is a function of q, k, v."""
    cases = []
    for name in variants.names():
        variant = variants.get(name)
        if hasattr(variant, "attend"):
            fields = {f.name for f in dataclasses.fields(variant.Config)}
            shared = (HEADS // 2, 1) if "num_kv_heads" in fields else ()
            for kv_heads in (HEADS, *shared):
                modes = [(False, "bidirectional"), (True, "causal")]
                cases += [(name, kv_heads, causal) for causal, m in modes if m in variant.MODES]
    return cases


def reference(name: str) -> ModuleType | None:
    """Returns tests/reference/<name>.py, or None if the variant has none yet."""
    if importlib.util.find_spec(f"reference.{name}") is None:
        return None
    return importlib.import_module(f"reference.{name}")
