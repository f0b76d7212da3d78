"""Runs claimed trials in this process; whatever goes wrong in one becomes its outcome."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attention.errors import Failure, Interrupted, UserError
from attention.sweeping.ledger import Claim, Try, new_try
from attention.sweeping.output import lines_of_thread_to, output_to
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


def run_group(jobs: Sequence[Job], *, train: str = TRAINER, shared: Any = None) -> list[Try]:
    """Runs one trial, or several that train at once, and ends their claims.

    Returns their outcomes.

    Args:
      shared: what trials of this process have in common, for `training.loop`; None for others.
    """
    run = run_alone if len(jobs) == 1 else run_at_once
    outcomes = run(jobs, train=train, shared=shared)
    for job, outcome in zip(jobs, outcomes, strict=True):
        job.claim.end(outcome)
    return outcomes


def run_alone(jobs: Sequence[Job], *, train: str, shared: Any) -> list[Try]:
    """Trains one trial and returns how that ended; output goes to its log."""
    (job,) = jobs
    begun = new_try()
    with output_to(job.log):
        print(f"trial {job.trial.number}: {job.trial.command(job.workdir)}", file=sys.stderr)
        options = {"prune": job.prune, "shared": shared}
        more = {name: value for name, value in options.items() if value is not None}
        try:
            result = load_trainer(train)(job.trial.load(), str(job.workdir), **more)
        except (Exception, KeyboardInterrupt) as error:
            return [_ended_by(begun, error)]
        return [_with_result(begun, result)]


def run_at_once(jobs: Sequence[Job], *, train: str, shared: Any) -> list[Try]:
    """Trains several trials by one program and returns how each ended.

    What a trial logs goes to its log; what no trial says, a compiler's warning, to the first.
    """
    from attention.training.vectorize import train_together

    assert train == TRAINER
    begun = dataclasses.replace(new_try(), runs_at_once=len(jobs))
    with output_to(jobs[0].log), contextlib.ExitStack() as logs:
        for job in jobs:
            file = logs.enter_context(lines_of_thread_to(job.log, thread=str(job.workdir)))
            print(f"trial {job.trial.number}: {job.trial.command(job.workdir)}", file=file)
            print(f"one of {len(jobs)} trained at once", file=file)
        try:
            outcomes = train_together(
                [job.trial.load() for job in jobs],
                [str(job.workdir) for job in jobs],
                prune=[job.prune for job in jobs],
                shared=shared,
            )
        except (Exception, KeyboardInterrupt) as error:
            return [_ended_by(begun, error) for _ in jobs]
        tries = []
        for job, outcome in zip(jobs, outcomes, strict=True):
            with output_to(job.log):
                tries.append(
                    _with_result(begun, outcome.result)
                    if outcome.error is None
                    else _ended_by(begun, outcome.error)
                )
        return tries


def _with_result(begun: Try, result: Any) -> Try:
    name, metric = first_metric(result)
    return _ended(begun, result["status"], metric=metric, metric_name=name)


def _ended_by(begun: Try, error: BaseException) -> Try:
    """Says on stderr what ended a trial, and returns it as an outcome."""
    if isinstance(error, Interrupted | KeyboardInterrupt):
        print(f"interrupted {error}", file=sys.stderr)
        return _ended(begun, "interrupted")
    if isinstance(error, UserError):
        return _failed(begun, "input", str(error))
    if isinstance(error, Failure):
        return _failed(begun, "diverged", str(error))
    traceback.print_exception(error)
    text = f"{type(error).__name__}: {error}"
    return _failed_together(begun, error, text) or _failed(begun, "crash", text)


def _failed_together(begun: Try, error: BaseException, text: str) -> Try | None:
    """The outcome of a trial that failed only because it ran at once with others, if it did."""
    if begun.runs_at_once == 1:
        return None
    from attention.training.together import CommonStepError, out_of_memory

    if out_of_memory(error):
        text += f"; a lower --vectorize than {begun.runs_at_once} takes less memory"
    elif not isinstance(error, CommonStepError):
        return None
    return _failed(begun, "together", text)


def _failed(begun: Try, kind: str, error: str) -> Try:
    line = " ".join(error.split())
    print(f"error: {line}", file=sys.stderr)
    return _ended(begun, "failed", kind=kind, error=line)


def _ended(begun: Try, status: str, **more: Any) -> Try:
    return dataclasses.replace(begun, status=status, ended=time.time(), **more)
