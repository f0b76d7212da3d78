"""What a sweep says before it starts and once it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attention.errors import Failure
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.plan import Sweep
from attention.sweeping.setting import Setting
from attention.sweeping.table import Seen, best

_MOST_NAMED = 8


def planned_lines(sweep: Sweep, setting: Setting) -> Iterator[str]:
    """Yields a line for each planned trial; nothing is made or run."""
    directory = SweepDirectory(setting.workdir)
    for trial in setting.trials or ():
        refused = f"  refused: {trial.error}" if trial.config_hash is None else ""
        yield f"{trial.number}  {trial.name}  {trial.command(directory.as_typed(trial))}{refused}"
    if sweep.space is not None:
        ranges = ", ".join(f"{key} of {range_}" for key, range_ in sweep.space.parameters.items())
        for number in range(setting.wanted):
            yield f"{number}  chosen by {sweep.space.sampler} when it starts: {ranges}"


def closing_words(setting: Setting, seen: Sequence[Seen]) -> str:
    """What was written, the best trial, and what to type next."""
    directory = SweepDirectory(setting.workdir)
    where = directory.path_as_given
    done = sum(each.standing.status in ("complete", "pruned") for each in seen)
    lines = [f"{done} of {len(seen)} trials done"]
    if top := best(seen):
        standing = top.standing
        lines += [
            f"best: trial {top.trial.number}, {standing.metric_name} {standing.metric:.4f} on dev",
            f"  {top.trial.command(directory.as_typed(top.trial))}",
        ]
    budget = "budget.json " if directory.budget_file.exists() else ""
    lines += [f"wrote {where}: {budget}sweep.json trials.jsonl trials/"]
    lines += ["next, with the folders of other sweeps and runs beside it:"]
    lines += [f"  python compare.py {where} --out=report"]
    return "\n".join(lines)


def raise_failure(setting: Setting, seen: Sequence[Seen]) -> None:
    """Raises Failure, which names the trials that have failed and their logs, if there are any."""
    directory = SweepDirectory(setting.workdir)
    failed = [each for each in seen if each.standing.status == "failed"]
    if failed:
        named = [
            f"trial {each.trial.number} ({each.standing.error}; log: "
            f"{directory.as_typed(each.trial)}.log)"
            for each in failed[:_MOST_NAMED]
        ]
        if len(failed) > _MOST_NAMED:
            named.append(f"the others are in {directory.path_as_given / 'trials.jsonl'}")
        raise Failure(f"{len(failed)} of {len(seen)} trials failed: {'; '.join(named)}")
