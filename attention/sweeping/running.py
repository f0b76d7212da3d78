"""Runs claimed trials in this process; whatever goes wrong in one becomes its outcome."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attention.errors import Failure, Interrupted, UserError
from attention.sweeping.ledger import Claim, Try, new_try
from attention.sweeping.plan import Trial
from attention.sweeping.standing import first_metric

TRAINER = "attention.training.loop:train"
Train = Callable[..., dict[str, Any]]


class Job(NamedTuple):
    """A claimed trial with its place: `workdir` is the run directory, `log` gets its stderr."""

    trial: Trial
    claim: Claim
    workdir: Path
    log: Path
    prune: Any = None


def load_trainer(name: str) -> Train:
    """Returns the function called `module:name`, which is called as `train(config, workdir)`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def run_group(jobs: Sequence[Job], *, train: str = TRAINER) -> list[Try]:
    """Runs the trials of a group, here one after the other, and ends their claims.

    Returns their outcomes. A group is what may share one compiled program; that of today has one
    trial. After an interruption the rest is not begun.
    """
    outcomes: list[Try] = []
    for job in jobs:
        stopped = bool(outcomes) and outcomes[-1].status == "interrupted"
        outcome = _interrupted(new_try()) if stopped else run_alone(job, train=train)
        job.claim.end(outcome)
        outcomes.append(outcome)
    return outcomes


def run_alone(job: Job, *, train: str = TRAINER) -> Try:
    """Trains one trial and returns how that ended; output goes to its log."""
    begun = new_try()
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with output_to(job.log):
        try:
            print(f"trial {job.trial.number}: {job.trial.command(job.workdir)}", file=sys.stderr)
            config = job.trial.load()
            more = {} if job.prune is None else {"prune": job.prune}
            result = load_trainer(train)(config, str(job.workdir), **more)
            name, metric = first_metric(result)
            return _ended(begun, result["status"], metric=metric, metric_name=name)
        except (Interrupted, KeyboardInterrupt) as error:
            print(f"interrupted {error}", file=sys.stderr)
            return _interrupted(begun)
        except UserError as error:
            return _failed(begun, "input", str(error))
        except Failure as error:
            return _failed(begun, "diverged", str(error))
        except Exception as error:
            traceback.print_exc()
            return _failed(begun, "crash", f"{type(error).__name__}: {error}")


def _interrupted(begun: Try) -> Try:
    return _ended(begun, "interrupted")


def _failed(begun: Try, kind: str, error: str) -> Try:
    line = " ".join(error.split())
    print(f"error: {line}", file=sys.stderr)
    return _ended(begun, "failed", kind=kind, error=line)


def _ended(begun: Try, status: str, **more: Any) -> Try:
    return dataclasses.replace(begun, status=status, ended=time.time(), **more)


@contextlib.contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Appends stdout and stderr of this process, also those of C++ libraries, to a file."""
    kept = [os.dup(number) for number in (1, 2)]
    with path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1) as file:
        try:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)
