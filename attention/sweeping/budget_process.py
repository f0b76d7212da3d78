"""Solves a budget in a process of its own, where devices are counted or used.

The process ends before workers start: on many accelerators only one process may hold a device. It
gets the share of one worker, so that what is measured is measured as a worker would run it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import attention
from attention.configuration.budget import Budget
from attention.errors import Failure, UserError
from attention.sweeping.budget_solving import Amount, Solved, Solver
from attention.sweeping.devices import shares, use_cores
from attention.sweeping.plan import Sweep

_ROOT = Path(attention.__file__).resolve().parents[1]
_START = (
    f"import sys; sys.path.insert(0, {str(_ROOT)!r}); "
    "from attention.sweeping.budget_process import main; sys.exit(main())"
)


class OtherMachine(UserError):
    """Something would have to be measured on another machine than what it is compared with."""


def ask_another(request: dict[str, Any], *, workers: int) -> dict[str, Any]:
    """Returns `answer(request)` of a new process.

    Raises:
      UserError: the reference is refused.
      Failure: the process ended without an answer.
    """
    share = shares(workers)[0]
    process = subprocess.run(
        [sys.executable, "-c", _START],
        input=json.dumps({**request, "cores": share.cores}),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **share.environment},
        # Ctrl-C comes to this process alone, which then ends the other.
        start_new_session=True,
        check=False,
    )
    if process.returncode:
        raise Failure("the budget could not be solved, see above")
    found = json.loads(process.stdout)
    if "error" in found:
        raise UserError(found["error"])
    return found


def main() -> int:
    """Reads a request from stdin and writes its answer to stdout."""
    request = json.load(sys.stdin)
    use_cores(request.pop("cores"))
    # The runs will say the rest.
    form = "%(asctime)s %(levelname)s: %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form, datefmt="%H:%M:%S")
    with contextlib.redirect_stdout(sys.stderr):  # a config file may print
        try:
            found = answer(request)
        except UserError as error:
            found = {"error": str(error)}
    print(json.dumps(found))
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Solves points.

    Args:
      request: spec, flags, budget (its fields), points, and what is known from before: reference
        and solved (fields of `Amount`, and of a `Solved` each), measured_on.

    Returns `reference` and `points`, for each the fields of `Solved`, or `error`; `measured_on`.

    Raises:
      UserError: the reference is refused.
      OtherMachine: seconds are asked for, and others were measured elsewhere.
    """
    flags = tuple((key, value) for key, value in request["flags"])
    sweep = Sweep(request["spec"], flags, budget=Budget(**request["budget"]))
    before = request["reference"]
    solved = {entry["shape"]: Solved(**entry) for entry in request["solved"]}
    with tempfile.TemporaryDirectory() as folder:
        made: list[Any] = []

        def costs() -> Any:
            from attention.training.costs import Costs  # JAX: where something is counted

            if not made:
                _check_same_machine(request)
                made.append(Costs(folder))
            return made[0]

        solver = Solver(sweep, costs, reference=Amount(**before) if before else None, solved=solved)
        found = {
            "reference": solver.reference._asdict(),
            "points": [_solved(solver, point) for point in request["points"]],
            "measured_on": None,
        }
        if sweep.budget and sweep.budget.kind == "time":
            from attention.training.costs import where_measured

            found["measured_on"] = where_measured()
    return found


def _check_same_machine(request: dict[str, Any]) -> None:
    before = request["measured_on"]
    if before is None:  # nothing is measured, or nothing yet
        return
    from attention.training.costs import where_measured

    if (here := where_measured()) != before:
        raise OtherMachine(
            f"budget=time was measured on {before}, this is {here}, and some points are not "
            "measured yet: start the same command there once, or name another --workdir to "
            "measure all of them here"
        )


def _solved(solver: Solver, point: dict[str, Any]) -> dict[str, Any]:
    try:
        return solver.solve(point)._asdict()
    except OtherMachine:
        raise
    except UserError as error:
        return {"error": str(error)}
