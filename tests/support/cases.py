"""Which variants, options and positions the conformance suite runs over.

Each variant has a base case of each mode, run by `make test`; the cases that change one option, or
the position scheme, are `slow` and run by `make test-full`, but for `attend` of `scaled_dot`. A
position scheme knows nothing of the variant it acts in, so its options are tried in few.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from attention import positions, variants

# Sizes that differ pairwise, so that a swapped axis cannot fit; heads have several divisors.
BATCH, QUERIES, KEYS, HEADS, HEAD_DIM = 3, 5, 7, 4, 6
LENGTH, DIM, CONTEXT_DIM = 11, 24, 10
FULLY_TESTED = "scaled_dot"
# The usual layer, and the one that gives position schemes another width.
WITH_POSITION_OPTIONS = ("scaled_dot", "mla")
# The position schemes that `attend` takes the arrays of.
WITH_ARRAYS = ("alibi", "t5", "shaw")

Options = tuple[tuple[str, Any], ...]


class LayerCase(NamedTuple):
    """One layer to make: a variant, its options, a position scheme."""

    name: str
    options: Options = ()
    position: Any = None

    def __str__(self) -> str:
        parts = [self.name, *(f"{key}={value}" for key, value in self.options)]
        return "-".join([*parts, str(self.position)] if self.position else parts)


class AttendCase(NamedTuple):
    """One call of `attend`: a variant, key heads, direction, options, the arrays of a scheme."""

    name: str
    kv_heads: int = HEADS
    causal: bool = False
    options: Options = ()
    position: str | None = None

    def __str__(self) -> str:
        direction = "causal" if self.causal else "bidirectional"
        options = (f"{key}={value}" for key, value in self.options)
        parts = [self.name, f"kv{self.kv_heads}", direction, *options]
        return "-".join([*parts, self.position] if self.position else parts)


def fields(name: str) -> tuple[dataclasses.Field, ...]:
    """Returns the options of a variant."""
    return dataclasses.fields(variants.get(name).Config)


def small_options(name: str) -> Options:
    """Returns options that make a variant do at these sizes what it does at large ones.

    `metadata["small"]` of a Config field says so: a window of 64 hides nothing of 11 tokens.
    """
    return tuple((f.name, f.metadata["small"]) for f in fields(name) if "small" in f.metadata)


def option_sets(name: str, *, of_layer: bool) -> list[Options]:
    """Returns the small options with each example value that a Config field declares, alone."""
    small = small_options(name)
    examples = [
        (f.name, value)
        for f in fields(name)
        for value in f.metadata.get("examples", ())
        if of_layer or not f.metadata.get("layer")
    ]
    return [
        (*(option for option in small if option[0] != example[0]), example) for example in examples
    ]


def inner_positions(name: str) -> list[Any]:
    """Returns the schemes that act inside a variant's attention, for some with their options."""
    found: list[Any] = []
    for scheme in getattr(variants.get(name), "POSITIONS", ()):
        config = positions.get(scheme).Config
        found.append(scheme)
        if name in WITH_POSITION_OPTIONS:
            found += [
                config(**{f.name: value})
                for f in dataclasses.fields(config)
                for value in f.metadata.get("examples", ())
            ]
    return found


def layer_cases(*modes: str) -> list[Any]:
    """Returns every variant that has the modes: the base case, options and inner positions."""
    cases, mode = [], modes[0]
    for name in variants.names():
        if not variants.get(name).MODES.issuperset(modes):
            continue
        small = small_options(name)
        cases.append(LayerCase(name, small))
        sets = option_sets(name, of_layer=True)
        if mode == "cross":  # where there is no distance
            sets = [options for options in sets if "window" not in dict(options)]
        more = [LayerCase(name, options) for options in sets]
        if mode != "cross":
            more += [LayerCase(name, small, position) for position in inner_positions(name)]
        cases += [pytest.param(case, marks=pytest.mark.slow) for case in more]
    return cases


def attend_cases() -> list[Any]:
    """Returns the calls of every variant that is a function of q, k, v."""
    cases = []
    for name in variants.names():
        variant = variants.get(name)
        if not hasattr(variant, "attend"):
            continue
        small, modes = small_options(name), variant.MODES
        shared = HEADS // 2 if "num_kv_heads" in {f.name for f in fields(name)} else HEADS
        directions = [c for c, m in ((True, "causal"), (False, "bidirectional")) if m in modes]
        directions = directions or [False]  # of cross-attention alone
        base = [AttendCase(name, shared, directions[0], small)]
        base += [AttendCase(name, HEADS, c, small) for c in directions[1:]]
        more = [AttendCase(name, kv, c, small) for kv in (HEADS, 1, shared) for c in directions]
        more = [case for case in more if case not in base and (shared < HEADS or case.kv_heads > 1)]
        last = directions[-1]
        sets = option_sets(name, of_layer=False)
        more += [AttendCase(name, shared, last, options) for options in sets]
        schemes = getattr(variant, "POSITIONS", ())
        more += [
            AttendCase(name, shared, c, small, scheme)
            for scheme in WITH_ARRAYS
            if scheme in schemes
            for c in directions
        ]
        marks = () if name == FULLY_TESTED else pytest.mark.slow
        cases += base + [pytest.param(case, marks=marks) for case in more]
    return cases


def other_sequence(name: str, x: Any) -> dict[str, Any]:
    """Returns x as the context for a layer that attends to another sequence only, else nothing."""
    alone = variants.get(name).MODES & {"bidirectional", "causal"}
    return {} if alone else {"context": x}


def reference(name: str) -> ModuleType | None:
    """Returns tests/reference/<name>.py, or None if the variant has none yet."""
    if importlib.util.find_spec(f"reference.{name}") is None:
        return None
    return importlib.import_module(f"reference.{name}")
