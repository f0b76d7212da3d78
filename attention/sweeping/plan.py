"""From a config file's `sweep()` to planned trials: their names, overrides and commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attention import configuration
from attention.configuration.budget import Budget, Budgeted, make_budget
from attention.configuration.fields import plain_value
from attention.configuration.load import load_sweep, parse_spec
from attention.configuration.overrides import EXCLUSIVE
from attention.configuration.points import ARGUMENT, Point
from attention.configuration.search_space import SearchSpace
from attention.errors import UserError

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Sweep:
    """What a command line sweeps over: `points`, or a `space` whose points are yet to be chosen.

    With a `budget`, `sweeping.budget.solve_budget` puts into the points what is solved; those for
    which nothing can be are `refused`, by number, with the reason.
    """

    spec: str  # FILE.py:argument, as typed
    flags: Pairs  # (dotted key, text) of all --config.KEY=VALUE, which hold for every point
    points: tuple[Point, ...] = ()
    space: SearchSpace | None = None
    budget: Budget | None = None
    amount: float | None = None  # of the budget, once it is known
    refused: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One planned run. `config_hash` is None where the config is refused, for the reason `error`.

    `spec` and `overrides` are what train.py is given.
    """

    number: int
    point: Point
    spec: str
    overrides: Pairs
    config_hash: str | None
    error: str = ""

    @property
    def name(self) -> str:
        return self.config_hash or f"refused-{self.number}"

    def load(self) -> Any:
        """Returns the config.

        Raises:
          UserError: it is refused, or the config file has changed since the trial was planned.
        """
        config = configuration.load_config(self.spec, self.overrides)
        if self.config_hash and configuration.config_hash(config) != self.config_hash:
            raise UserError(
                f"{self.spec} has changed since the sweep was started: start it once more"
            )
        return config

    def command(self, workdir: Path | str) -> str:
        """Returns the train.py command that makes the same run, for a shell."""
        flags = [f"--config.{key}={value}" for key, value in self.overrides]
        words = ["train.py", f"--config={self.spec}", f"--workdir={workdir}", *flags]
        return shlex.join(["python", *words])


def read_sweep(spec: str, flags: Pairs, budget: str | None = None) -> Sweep:
    """Calls `sweep()` of a config file.

    Args:
      budget: a kind that goes before what the file says; None: what it says, if anything.

    Raises:
      UserError: the file has none, it yields nothing or other things than flat dicts, it sweeps
        over a key that does not name a run, or sets one that the budget is to solve.
    """
    file, _ = parse_spec(spec)
    made = load_sweep(file)
    if isinstance(made, SearchSpace):
        refuse_unnamed_keys(file, made.parameters)
        if budget is not None:
            raise UserError(
                f"--budget={budget} is for points, and sweep() of {file} is a search space: it "
                "tries some variants more often than others, which no budget makes fair"
            )
        return Sweep(spec, tuple(flags), space=made)
    wanted = made.budget if isinstance(made, Budgeted) else None
    if budget is not None:
        wanted = wanted.of_kind(budget) if wanted else make_budget(budget)
    made = made.points if isinstance(made, Budgeted) else made
    if not isinstance(made, list | tuple):
        raise UserError(f"{file}: sweep() must yield dicts or return a SearchSpace, got {made!r}")
    points = tuple(_checked_point(file, each) for each in made)
    if not points:
        raise UserError(f"{file}: sweep() yields no point")
    refuse_unnamed_keys(file, _varied(points))
    if wanted:
        _refuse_solved_keys(file, points, wanted)
    return Sweep(spec, tuple(flags), points=points, budget=wanted)


def _checked_point(file: str, point: Any) -> Point:
    if not isinstance(point, Mapping) or not all(isinstance(key, str) for key in point):
        raise UserError(f"{file}: sweep() must yield dicts with dotted keys, got {point!r}")
    return {key: plain_value(value, key) for key, value in point.items()}


def _varied(points: Sequence[Point]) -> Iterator[str]:
    """Yields the dotted keys whose values differ between points; those of sections as well."""
    flat = [dict(_leaves(point)) for point in points]
    for key in dict.fromkeys(key for each in flat for key in each):
        if len({json.dumps(each.get(key, "(absent)"), sort_keys=True) for each in flat}) > 1:
            yield key


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def refuse_unnamed_keys(file: str, keys: Any) -> None:
    """Raises UserError for a swept key that `config_hash` leaves out: its runs would be one."""
    for key in keys:
        if key != ARGUMENT and not configuration.in_hash(key):
            raise UserError(
                f"{file}: sweep() varies {key}, which changes how a run is made and not what comes "
                f"out, and so names no run: take it out, or set it for all with --config.{key}="
            )


def _refuse_solved_keys(file: str, points: Sequence[Point], budget: Budget) -> None:
    for number, point in enumerate(points):
        for key in budget.keys & dict(_leaves(point)).keys():
            what = f"it is what budget={budget.kind} solves"
            if key != budget.solve:
                what = f"budget={budget.kind} solves {budget.solve} in its place"
            raise UserError(
                f"{file}: point {number} of sweep() sets {key}, but {what}: take it out"
            )


def plan_trial(sweep: Sweep, number: int, point: Point) -> Trial:
    """Returns the trial of a point; a config that is refused becomes part of it."""
    point = dict(point)
    overrides = _overrides(sweep.flags, point)
    spec = sweep.spec
    try:
        spec = _spec(spec, point)
        if number in sweep.refused:
            raise UserError(sweep.refused[number])
        config = configuration.load_config(spec, overrides)
    except UserError as error:
        return Trial(number, point, spec, overrides, None, str(error))
    return Trial(number, point, spec, overrides, configuration.config_hash(config))


def load_point(sweep: Sweep, point: Point) -> Any:
    """Returns the config of a point; raises UserError where it is refused."""
    return configuration.load_config(_spec(sweep.spec, point), _overrides(sweep.flags, point))


def _spec(spec: str, point: Point) -> str:
    """Returns a `--config=` value with the point's argument merged over its own."""
    file, argument = parse_spec(spec)
    merged = configuration.merge_arguments(argument, point.get(ARGUMENT, ""))
    return f"{file}:{merged}" if merged else spec


def _overrides(flags: Pairs, point: Point) -> Pairs:
    """Returns what train.py gets: a point's values win over flags, also over `train_steps` where
    the point says `train_epochs`."""
    own = [(key, str(value)) for key, value in point.items() if key != ARGUMENT]
    taken = {key for key, _ in own}
    for pair in EXCLUSIVE:
        if taken & set(pair):
            taken |= set(pair)
    return (*((key, value) for key, value in flags if key not in taken), *own)


def plan(sweep: Sweep, numbers: Sequence[int]) -> tuple[Trial, ...]:
    """Returns the trials of some points, each config once.

    Raises:
      UserError: every one of them is refused.
    """
    trials = {}
    for number in numbers:
        trial = plan_trial(sweep, number, sweep.points[number])
        trials.setdefault(trial.name, trial)
    planned = tuple(trials.values())
    if planned and all(trial.config_hash is None for trial in planned):
        of_all = "" if len(planned) == 1 else f"all {len(planned)} points are refused, the first: "
        raise UserError(f"{of_all}{planned[0].error}")
    return planned


def identity(point: Point) -> str:
    """Returns the same text for points that are equal, also after JSON has made tuples lists."""
    return json.dumps(point, sort_keys=True)
