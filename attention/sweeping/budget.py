"""The budget of a sweep: solved once, written down, and put into the points.

What is solved becomes a value of each point, so that trials are ordinary runs: the printed
train.py command has it, and `config_hash` knows it.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from attention.configuration.budget import UNITS, Budget
from attention.configuration.points import Point
from attention.errors import UserError
from attention.sweeping.budget_process import answer, ask_another
from attention.sweeping.budget_solving import Amount, Solved
from attention.sweeping.directory import SweepDirectory, described_command
from attention.sweeping.plan import Sweep, identity, load_point
from attention.training.atomic import write_json

log = logging.getLogger(__name__)


@dataclasses.dataclass
class Book:
    """What is known of a budget: what the reference spends, and each point solved so far."""

    reference: Amount | None = None
    measured_on: str | None = None
    points: list[tuple[Point, Solved]] = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Book:
        """Returns what has been written down; nothing where there is no file."""
        if not path.exists():
            return cls()
        plain = json.loads(path.read_text("utf-8"))
        points = [
            (point, Solved(**{key: each[key] for key in Solved._fields}))
            for each in plain["solved"]
            for point in each["points"]
        ]
        return cls(Amount(**plain["reference"]), plain["measured_on"], points)

    def write(self, path: Path, sweep: Sweep) -> None:
        assert self.reference is not None and sweep.budget is not None
        solved = [
            {**each._asdict(), "points": [point for point, other in self.points if other == each]}
            for each in self.solved
        ]
        write_json(
            path,
            {
                **described_command(sweep),
                "unit": UNITS[sweep.budget.kind],
                "reference": self.reference._asdict(),
                "measured_on": self.measured_on,
                "solved": solved,
            },
        )

    @property
    def solved(self) -> list[Solved]:
        return list(dict.fromkeys(solved for _, solved in self.points))


def solve_budget(
    sweep: Sweep,
    workdir: str | Path,
    *,
    numbers: Sequence[int] | None = None,
    workers: int = 1,
    storage: str | None = None,
    keep: bool = True,
) -> Sweep:
    """Returns the sweep with what its budget asks for in its points.

    What was solved before in this folder is taken as it is, also by other hosts that share it.

    Args:
      workdir: the sweep directory.
      numbers: the points that are to run; others are not solved, unless it is by measuring.
        None: all.
      workers: how many the sweep will have: what is measured is measured as one of them.
      storage: the database, if the sweep has one.
      keep: whether to write down what is solved; False: nothing is made.

    Raises:
      UserError: the reference is refused, the folder holds another sweep, or something would have
        to be measured on another machine than the rest.
      Failure: solving ended with a crash.
    """
    if sweep.budget is None:
        return sweep
    if sweep.budget.kind == "time" and storage is not None:
        raise UserError(
            "budget=time is measured on one machine and kept in the sweep's folder, and --storage "
            "is for machines that share none: drop --storage, or choose another budget"
        )
    directory = SweepDirectory(workdir)
    directory.check_same(described_command(sweep))
    points = sweep.points if numbers is None else [sweep.points[number] for number in numbers]
    if not keep:
        book, errors = _completed(Book.read(directory.budget_file), sweep, points, workers)
        return _with_solutions(sweep, book, errors)
    directory.make()
    with directory.solving():
        before = Book.read(directory.budget_file)
        book, errors = _completed(before, sweep, points, workers)
        if book != before:
            book.write(directory.budget_file, sweep)
    return _with_solutions(sweep, book, errors)


def _completed(
    book: Book, sweep: Sweep, points: Sequence[Point], workers: int
) -> tuple[Book, dict[str, str]]:
    """Solves which of the points are not in the book; also returns why some cannot be, by
    `identity`."""
    assert sweep.budget is not None
    known = {identity(point) for point, _ in book.points}
    unknown = {identity(each): each for each in points if identity(each) not in known}
    if not unknown:
        return book, {}
    if sweep.budget.kind == "time":  # all on one machine: the next command may be on another
        unknown = {identity(each): each for each in sweep.points if identity(each) not in known}
    if len(unknown) > 1 or book.reference is None:
        log.info("solving %s for budget=%s", sweep.budget.solve, sweep.budget.kind)
    request = {
        "spec": sweep.spec,
        "flags": [list(pair) for pair in sweep.flags],
        "budget": dataclasses.asdict(sweep.budget),
        "points": list(unknown.values()),
        "reference": book.reference and book.reference._asdict(),
        "solved": [each._asdict() for each in book.solved],
        "measured_on": book.measured_on,
    }
    needs = _needs_devices(sweep, sweep.budget)
    found = ask_another(request, workers=max(1, workers)) if needs else answer(request)
    entries, errors = list(book.points), {}
    for (name, point), each in zip(unknown.items(), found["points"], strict=True):
        if "error" in each:
            errors[name] = each["error"]
        else:
            entries.append((point, Solved(**each)))
    measured_on = book.measured_on or found["measured_on"]
    return Book(Amount(**found["reference"]), measured_on, entries), errors


def _needs_devices(sweep: Sweep, budget: Budget) -> bool:
    if budget.kind == "steps":  # an epoch's steps depend on the number of devices
        return load_point(sweep, budget.like).train_steps is None
    return budget.kind in ("flops", "time")


def _with_solutions(sweep: Sweep, book: Book, errors: dict[str, str]) -> Sweep:
    assert sweep.budget is not None and book.reference is not None
    solved = {identity(point): each for point, each in book.points}
    points, refused = [], {}
    for number, point in enumerate(sweep.points):
        found = solved.get(identity(point))
        if identity(point) in errors:
            refused[number] = errors[identity(point)]
        elif found and found.refused:
            named = " ".join(f"{key}={value}" for key, value in point.items()) or "{}"
            refused[number] = f"the point {named} {found.refused}"
        kept = {} if number in refused or found is None else {sweep.budget.solve: found.value}
        points.append({**point, **kept})
    for line in _told(sweep, book, [solved.get(identity(point)) for point in sweep.points]):
        log.info("%s", line)
    every = all(identity(point) in solved for point in sweep.points)
    if every and len(book.solved) == 1 and book.solved[0].amount == book.reference.amount:
        log.warning(
            "budget=%s makes nothing equal here: all points spend what the reference does. What is "
            "compared has to be in one sweep(), or name the reference there: budgeted(…, like=…)",
            sweep.budget.kind,
        )
    return dataclasses.replace(
        sweep, points=tuple(points), amount=book.reference.amount, refused=refused
    )


def _told(sweep: Sweep, book: Book, found: Sequence[Solved | None]) -> Iterator[str]:
    """Yields what is equal, and a line for each shape."""
    assert sweep.budget is not None and book.reference is not None
    unit = UNITS[sweep.budget.kind]
    where = f", measured on {book.measured_on}" if book.measured_on else ""
    yield f"budget={sweep.budget.kind}: {_number(book.reference.amount)} {unit} each{where}"
    for each in dict.fromkeys(one for one in found if one):
        numbers = ", ".join(str(number) for number, one in enumerate(found) if one == each)
        yield (f"  {sweep.budget.solve}={each.value} gives {_number(each.amount)}: trial {numbers}")


def _number(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"
