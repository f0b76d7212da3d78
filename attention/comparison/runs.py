"""Finding runs in folders and sweeps, and reading what they wrote."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention.comparison.budgets import Budget, budget_of
from attention.errors import UserError, did_you_mean

COMPLETE = "complete"
UNFINISHED = ("running", "interrupted")
_REASONS = {
    "failed": "training failed, by an error or a loss that is no number",
    "running": "it has not finished, or was killed",
    "interrupted": "it was interrupted; the same train.py command goes on with it",
    "pruned": "its sweep stopped it early",
}
_DEEPEST = 4  # levels of folders below an argument that are searched for runs

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run directory: its config by dotted key, its result, and its curve on dev.

    `status` is that of result.json, or what a sweep knows better ("failed", "diverged"), or
    "unreadable"; `reason` says why a run is not counted.
    """

    workdir: str  # as the user gave it
    path: Path
    config: Mapping[str, Any]
    result: Mapping[str, Any]
    status: str
    reason: str = ""
    is_averaged: bool = False  # see `averaged`
    budget: Budget | None = None  # of its sweep

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the dev metrics; the first decides what is best."""
        return tuple(self.result.get("eval") or ())

    @property
    def seed(self) -> Any:
        return self.result.get("seed", self.config.get("seed"))

    @property
    def variant(self) -> str:
        return self.result.get("variant") or _variant_of(self.config) or "none"

    def score(self, split: str, metric: str) -> float | None:
        """The metric of the best checkpoint on "dev" or "test"; None where there is none."""
        scores = self.result.get({"dev": "eval", "test": "test"}[split]) or {}
        value = scores.get(metric)
        return _number(value)

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """(step, dev metric) of each evaluation, from metrics.jsonl; a torn line is left out."""
        points = {}
        for row in _json_lines(self.path / "metrics.jsonl"):
            value = _number(row.get(f"eval/{metric}"))
            if value is not None and isinstance(row.get("step"), int):
                points[row["step"]] = value
        return sorted(points.items())

    def averaged(self) -> Run:
        """The run with the scores of the mean of its last checkpoints in place of its best one's.

        One that has none keeps no score either.
        """
        average = self.result.get("average") or {}
        scores = {split: average.get(split) for split in ("eval", "test")}
        # Its files in eval/ are named so.
        step = f"average-{(average.get('steps') or [None])[-1]}"
        reason = "" if scores["eval"] else "it has no averaged checkpoints (average_checkpoints=0)"
        result = {**self.result, **scores, "best_step": step}
        return dataclasses.replace(
            self, result=result, reason=self.reason or reason, is_averaged=True
        )


def find_runs(arguments: Sequence[str]) -> list[Run]:
    """Returns the runs in the given folders, each once, in the order of the arguments.

    Args:
      arguments: each is a run, a sweep directory, or a folder that holds such.

    Raises:
      UserError: a folder is not there or holds no run.
    """
    found: dict[Path, Run] = {}
    for argument in arguments:
        folder = Path(argument).expanduser()
        if not folder.is_dir():
            what = "is a file" if folder.exists() else f"does not exist{_nearest(folder)}"
            raise UserError(f"{argument} {what}; name a run, a sweep, or a folder of such")
        runs = list(_runs_below(folder, argument.rstrip("/") or "/", _DEEPEST))
        if not runs:
            raise UserError(
                f"{argument} holds no run (no folder with a config.json) and no trial of a sweep; "
                "train.py --workdir=FOLDER makes a run, sweep.py --workdir=FOLDER many"
            )
        for run in runs:
            found.setdefault(run.path.resolve(), run)
    return list(found.values())


def _nearest(folder: Path) -> str:
    if not folder.parent.is_dir():
        return ""
    return did_you_mean(folder.name, (p.name for p in folder.parent.iterdir() if p.is_dir()))


def _runs_below(folder: Path, name: str, depth: int) -> Iterator[Run]:
    if (folder / "config.json").is_file():
        yield _read_run(folder, name)
    elif (folder / "sweep.json").is_file():
        trials = list(_json_lines(folder / "trials.jsonl"))
        budget = budget_of(trials)
        for run in _read_sweep(folder, name, trials):
            yield dataclasses.replace(run, budget=budget)
    elif depth:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.name.startswith("."):
                yield from _runs_below(child, f"{name}/{child.name}", depth - 1)


def _read_sweep(folder: Path, name: str, trials: Sequence[dict[str, Any]]) -> Iterator[Run]:
    """The trials of a sweep: those it lists, and run directories that it does not list yet."""
    last: dict[str, dict[str, Any]] = {}  # a trial that was tried again has several lines
    for row in trials:
        key = str(row.get("config_hash") or row.get("trial"))
        last.pop(key, None)
        last[key] = row
    there = {path.name for path in folder.glob("trials/*/") if (path / "config.json").is_file()}
    for key, row in last.items():
        where = f"{name}/trials/{key}"
        if key in there:
            yield _of_trial(_read_run(folder / "trials" / key, where), row)
        else:
            yield _without_run(row, folder / "trials" / key, where)
    for key in sorted(there - set(last)):
        yield _read_run(folder / "trials" / key, f"{name}/trials/{key}")


def _of_trial(run: Run, row: Mapping[str, Any]) -> Run:
    """A run with what its sweep knows: that a trial has ended although its process could not say.

    A run that is complete stays so: the sweep may have been killed before it noted that.
    """
    status = str(row.get("status") or "unknown")
    if run.status in (COMPLETE, "unreadable") or status in (COMPLETE, *UNFINISHED, "unknown"):
        return run
    return dataclasses.replace(
        run, status=status, reason=_said(row) or _REASONS.get(status, f"the sweep says {status}")
    )


def _without_run(row: Mapping[str, Any], path: Path, where: str) -> Run:
    """A trial that the sweep lists and that has left no run directory."""
    status = str(row.get("status") or "unknown")
    if status == COMPLETE:
        status = "missing"
    known = {"planned": "it has not begun"}
    reason = _said(row) or known.get(status, "the sweep lists it, but it has no run directory")
    given = row.get("overrides")
    config = dict(_leaves(given)) if isinstance(given, dict) else {}
    return Run(where, path, config, {}, status, reason)


def _said(row: Mapping[str, Any]) -> str:
    """The error that the sweep noted, and where its log is."""
    log_file = f" (log: {row['log']})" if row.get("log") else ""
    return f"{row['error']}{log_file}" if row.get("error") else ""


def _read_run(path: Path, name: str) -> Run:
    try:
        config = dict(_leaves(_read_object(path / "config.json")))
    except ValueError as error:
        return Run(name, path, {}, {}, "unreadable", str(error))
    try:
        result = _checked(_read_object(path / "result.json"))
    except FileNotFoundError:
        reason = "it has no result.json: nothing was evaluated yet"
        return Run(name, path, config, {}, "not evaluated", reason)
    except ValueError as error:
        return Run(name, path, config, {}, "unreadable", str(error))
    status = str(result.get("status") or "unknown")
    if status == COMPLETE and not result.get("eval"):
        return Run(name, path, config, result, status, "it has no dev score")
    reason = "" if status == COMPLETE else _REASONS.get(status, f"it is {status}")
    return Run(name, path, config, result, status, reason)


_SECTIONS = ("eval", "test", "average", "versions")
_NAMES = ("status", "task", "dataset", "size", "variant")


def _checked(result: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError where a part that is looked into is of another kind: damaged, or made by
    another program."""
    average = result.get("average") or {}
    parts: dict[str, tuple[Any, type]] = {key: (result.get(key), dict) for key in _SECTIONS}
    parts |= {key: (result.get(key), str) for key in _NAMES}
    if isinstance(average, dict):
        parts |= {f"average.{key}": (average.get(key), dict) for key in ("eval", "test")}
        parts["average.steps"] = (average.get("steps"), list)
    for key, (value, kind) in parts.items():
        if not isinstance(value, kind | None):
            raise ValueError(f"result.json has {key}={value!r}")
    return result


def _number(value: Any) -> float | None:
    """A score that can be counted; JSON as Python reads it has NaN and infinities."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object, or raises ValueError with a line that names the file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{path.name} is not valid JSON") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no JSON object")
    return value


def _leaves(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of each leaf; the types that config.json carries along are left out."""
    for key, value in section.items():
        if isinstance(value, dict):
            if key != "__types__":
                yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _hashable(value)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text("utf-8", errors="replace").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            log.warning("%s:%d is not JSON and is passed over", path, number)
            continue
        if isinstance(row, dict):
            yield row


def _variant_of(config: Mapping[str, Any]) -> str | None:
    """The variant of a run without a result: from its config, or from a trial's overrides."""
    from attention.configuration.attention_sections import KEYS

    names = [config[f"{key}.variant"] for key in KEYS if config.get(f"{key}.variant")]
    if names:
        return "/".join(dict.fromkeys(map(str, names)))
    pairs = (pair.partition("=") for pair in str(config.get("arg", "")).split(","))
    return next((value for key, _, value in pairs if key.strip() == "variant"), None)
