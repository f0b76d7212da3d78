"""The folder of a sweep: the names in it, and its two files for readers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention.configuration.points import Point
from attention.configuration.search_space import SearchSpace
from attention.errors import UserError
from attention.sweeping.ledger import exclusive
from attention.sweeping.plan import Sweep, Trial, identity
from attention.training.atomic import to_json, write_json, write_text
from attention.training.run_directory import RunDirectory

log = logging.getLogger(__name__)


class SweepDirectory:
    """Names what lies in a sweep's folder; nothing is made until `create`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path_as_given = Path(os.fspath(path))
        self.path = Path(path).expanduser().absolute()
        self.sweep_file = self.path / "sweep.json"
        self.trials_file = self.path / "trials.jsonl"
        self.trials = self.path / "trials"
        self.claims = self.path / "claims"
        self.study_file = self.path / "search.db"
        self.worker_log = self.path / "workers.log"
        self.budget_file = self.path / "budget.json"
        self._budget_lock = self.path / ".budget.lock"
        self._lock_file = self.path / ".lock"

    def run(self, trial: Trial) -> RunDirectory:
        """The run directory of a trial."""
        return RunDirectory(self.trials / trial.name)

    def log(self, trial: Trial) -> Path:
        """What a trial writes to stderr."""
        return self.trials / f"{trial.name}.log"

    def as_typed(self, trial: Trial) -> Path:
        """The run directory of a trial, for a command line."""
        return self.path_as_given / "trials" / trial.name

    def create(self, sweep: Sweep, *, storage: str | None) -> None:
        """Makes the folder and sweep.json, or goes on with the sweep that is there.

        Args:
          storage: the database, without its password; None: files of this folder.

        Raises:
          UserError: the folder cannot be made, or holds other things or another sweep.
        """
        self.make()
        with self.lock():
            self._write_sweep(sweep, storage)

    def make(self) -> None:
        """Makes the folder; raises UserError where it cannot be, or holds other things."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            entries = {entry.name for entry in self.path.iterdir()}
        except OSError as error:
            raise UserError(f"--workdir={self.path} cannot be used: {error.strerror}") from error
        own = {path.name for path in vars(self).values() if isinstance(path, Path)}
        foreign = sorted(name for name in entries - own if not name.endswith(".tmp"))
        if foreign and not self.sweep_file.exists():
            raise UserError(
                f"--workdir={self.path} holds other things ({', '.join(foreign[:3])}) and no "
                "sweep; name a new or empty folder"
            )

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other sweeps from changing the two files within a block."""
        return self._locked(self._lock_file)

    def solving(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other sweeps from solving the budget within a block, which may take minutes."""
        return self._locked(self._budget_lock)

    @contextlib.contextmanager
    def _locked(self, file: Path) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(exclusive(file))
            except OSError as error:
                raise UserError(
                    f"--workdir={self.path} cannot be locked ({error.strerror}), as a sweep must: "
                    "name a folder on another file system"
                ) from error
            yield

    def check_same(self, command: Mapping[str, Any]) -> None:
        """Raises UserError where the folder holds a sweep of another command, or a damaged one.

        Args:
          command: entries of sweep.json.
        """
        if not self.sweep_file.exists():
            return
        before = _object(self.sweep_file.read_text("utf-8"))
        if before is None:
            raise UserError(
                f"{self.sweep_file} is damaged: expected a JSON object; restore it, or name "
                "another folder with --workdir"
            )
        for key, value in command.items():
            if before.get(key) != value:
                raise UserError(
                    f"--workdir={self.path} holds a sweep with {key}={before.get(key)!r}, now "
                    f"{value!r}: give the same command, or name another folder"
                )

    def _write_sweep(self, sweep: Sweep, storage: str | None) -> None:
        now = {
            **described_command(sweep),
            "storage": storage,
            "kind": "search" if sweep.space else "points",
        }
        self.check_same(now)
        if sweep.amount is not None:
            now["budget_amount"] = sweep.amount
        if sweep.space:
            self._check_same_space(described(sweep.space))
        of = {"space": described(sweep.space)} if sweep.space else {"points": sweep.points}
        write_json(self.sweep_file, {**now, **of})

    def _check_same_space(self, space: Mapping[str, Any]) -> None:
        """Raises UserError for another space than the search began with; more trials are none."""
        if not self.sweep_file.exists():
            return
        before = (_object(self.sweep_file.read_text("utf-8")) or {}).get("space") or {}
        old, new = (_flat(each) for each in (before, json.loads(json.dumps(space))))
        names = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        if old and names:
            raise UserError(
                f"--workdir={self.path} holds a search with another {', '.join(names)}, and draws "
                "from two spaces are not one search: put sweep() back, or name another folder"
            )

    def write_rows(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        points: Mapping[int, Point],
        solved: str | None = None,
    ) -> None:
        """Puts rows into trials.jsonl; those of other points of the same sweep stay.

        Args:
          points: all points of the sweep, by number.
          solved: the key that a budget sets, which some of the points may lack as yet.
        """

        def name(point: Point) -> str:
            return identity({key: value for key, value in point.items() if key != solved})

        numbers: dict[str, int] = {}
        for number, point in points.items():
            numbers.setdefault(name(point), number)
        before = self.rows()
        merged: dict[int, Mapping[str, Any]] = {}
        for row in before:
            here = numbers.get(name(row["overrides"]))
            if here is not None:
                merged[here] = {**row, "trial": here}
        merged |= {row["trial"]: row for row in rows}
        text = "".join(f"{to_json(merged[number])}\n" for number in sorted(merged))
        if text != "".join(f"{to_json(row)}\n" for row in before) or not before:
            write_text(self.trials_file, text)

    def write_refusal(self, trial: Trial) -> None:
        """Writes the log of a trial whose config is refused, and which is never begun; one that
        says the same stays."""
        self.trials.mkdir(exist_ok=True)
        text = f"{trial.command(self.as_typed(trial))}\n{trial.error}\n"
        if not self.log(trial).exists() or self.log(trial).read_text("utf-8") != text:
            write_text(self.log(trial), text)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of trials.jsonl; a damaged one is passed over, for it is written anew."""
        try:
            lines = self.trials_file.read_text("utf-8").split("\n")
        except FileNotFoundError:
            return []
        rows = []
        for number, line in enumerate(lines, start=1):
            row = _object(line)
            if row is not None and {"trial", "overrides"} <= row.keys():
                rows.append(row)
            elif line:
                log.warning("%s:%d is damaged and passed over", self.trials_file, number)
        return rows


def _object(text: str) -> dict[str, Any] | None:
    """A JSON object, or None where the text holds none."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _flat(space: Mapping[str, Any]) -> dict[str, Any]:
    """What a search depends on, by name: each range, the sampler and so on, not how many trials."""
    rest = {key: value for key, value in space.items() if key not in ("parameters", "trials")}
    return {**rest, **space.get("parameters", {})}


def described_command(sweep: Sweep) -> dict[str, Any]:
    """What was typed, as JSON gives it back."""
    budget = sweep.budget and dataclasses.asdict(sweep.budget)
    return {
        "config": sweep.spec,
        "flags": [list(pair) for pair in sweep.flags],
        "budget": json.loads(json.dumps(budget)),
    }


def described(space: SearchSpace) -> dict[str, Any]:
    """A search space as JSON."""
    kinds = {key: type(range_).__name__.lower() for key, range_ in space.parameters.items()}
    parameters = {
        key: {"kind": kinds[key], **dataclasses.asdict(range_)}
        for key, range_ in space.parameters.items()
    }
    plain = dataclasses.replace(space, parameters=dict(space.parameters))
    return {**dataclasses.asdict(plain), "parameters": parameters}
