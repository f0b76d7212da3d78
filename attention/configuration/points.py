"""Points of a sweep, for a config file's `sweep()`: flat dicts, made by a few helpers.

    def sweep():
        return grid({"optimizer.learning_rate": (1e-3, 3e-3), "arg.seed": range(3)})

A key is a dotted config key, or `arg.NAME` for the config argument NAME; the arguments of a point
are joined to its one key `arg`, as in {"arg": "seed=0", "optimizer.learning_rate": 1e-3}.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from attention.configuration.arguments import merge_arguments
from attention.errors import UserError

ARGUMENT = "arg"
Point = dict[str, Any]


def listed(key: str, values: Iterable[Any]) -> list[Point]:
    """Returns a point for each value of one key."""
    return [point({key: value}) for value in values]


def product(*parts: Iterable[Point]) -> list[Point]:
    """Returns each point of the first part joined with each of the others; the last varies fastest.

    Of a key that several parts set, the last value stays; config arguments are joined key by key.
    """
    return [joined(*chosen) for chosen in itertools.product(*parts)]


def zipped(*parts: Iterable[Point]) -> list[Point]:
    """Returns the first points of all parts joined, then the second ones, and so on.

    Raises:
      UserError: the parts have different lengths.
    """
    lists = [list(part) for part in parts]
    if len({len(part) for part in lists}) > 1:
        lengths = ", ".join(str(len(part)) for part in lists)
        raise UserError(f"zipped() joins parts of the same length, got {lengths} points")
    return [joined(*chosen) for chosen in zip(*lists, strict=True)]


def grid(values: Mapping[str, Iterable[Any]]) -> list[Point]:
    """Returns a point for each combination of the values of some keys; the last varies fastest."""
    return product(*(listed(key, each) for key, each in values.items()))


def point(values: Mapping[str, Any]) -> Point:
    """Returns one point, with `arg.NAME` keys made into its argument."""
    made: Point = {}
    for key, value in values.items():
        name = key.removeprefix(f"{ARGUMENT}.")
        made = joined(made, {key: value} if name == key else {ARGUMENT: f"{name}={value}"})
    return made


def joined(*points: Point) -> Point:
    """Returns one point with the keys of all."""
    made: Point = {}
    for each in points:
        arguments = (made.get(ARGUMENT, ""), each.get(ARGUMENT, ""))
        made |= each
        if any(arguments):
            made[ARGUMENT] = merge_arguments(*arguments)
    return made
