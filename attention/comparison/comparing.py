"""From folders to a comparison: read, group, choose on dev, test, and say what to beware of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from attention.comparison import cautions, grouping, pareto, testing
from attention.comparison.examples import bleu_signature
from attention.comparison.grouping import Block, Group, Keys
from attention.comparison.rows import Chosen, Row, choose, split_of
from attention.comparison.runs import Run, find_runs
from attention.errors import UserError, did_you_mean


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asks for; the names are those of the flags of compare.py."""

    baseline: str | None = None
    metric: str | None = None  # None: the first of each task
    split: str = "auto"
    keys: Keys = dataclasses.field(default_factory=Keys)
    allow_mixed: bool = False
    checkpoint: str = "best"  # or "average"
    include_running: bool = False


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What a report shows.

    Attributes:
      chosen: the rows, block by block, the best on dev first.
      runs: all runs that were read.
      rejected: those that no row counts, and why.
      cautions: one line for each thing that limits what may be concluded.
      signatures: sacreBLEU's, where BLEU is shown.
    """

    chosen: tuple[Chosen, ...]
    runs: tuple[Run, ...]
    rejected: tuple[tuple[Run, str], ...]
    cautions: tuple[str, ...]
    signatures: tuple[str, ...]

    def panels(self) -> dict[tuple[str, ...], list[Chosen]]:
        """The rows that are compared with each other, best on dev first."""
        found: dict[tuple[str, ...], list[Chosen]] = {}
        for chosen in self.chosen:
            found.setdefault(chosen.row.key, []).append(chosen)
        return found


def families(panels: Iterable[Sequence[Chosen]]) -> list[tuple[str, list[Sequence[Chosen]]]]:
    """Returns (key, panels) where panels differ in one key whose values are numbers, in order.

    Such as the number of training examples: what a study plots its scores against. What another
    key decides, as a distance the length of examples, may differ with it.
    """
    everything = list(panels)
    alike: dict[Any, list[Sequence[Chosen]]] = {}
    for members in everything:
        row, items = members[0].row, members[0].group.panel
        for key, value in items:
            if isinstance(value, int | float) and not isinstance(value, bool):
                decided = _decided_by(key, everything, row.key[:4])
                rest = tuple(item for item in items if item[0] not in decided)
                alike.setdefault((row.key[:4], key, rest), []).append(members)
    found: dict[Any, tuple[str, list[Sequence[Chosen]]]] = {}
    for (_, key, _), several in alike.items():
        if len(several) > 1:
            ordered = sorted(several, key=lambda members: dict(members[0].group.panel)[key])
            # Of two keys that decide each other one plot is enough.
            found.setdefault(tuple(map(id, ordered)), (key, ordered))
    return list(found.values())


def _decided_by(key: str, panels: Sequence[Sequence[Chosen]], place: tuple[str, ...]) -> set[str]:
    """Returns the keys of panels in one place that have one number wherever `key` has one."""
    values: dict[str, dict[Any, set[Any]]] = {}
    for members in panels:
        if members[0].row.key[:4] == place:
            items = dict(members[0].group.panel)
            for other, value in items.items():
                values.setdefault(other, {}).setdefault(items.get(key), set()).add(value)
    return {
        other
        for other, seen in values.items()
        if all(
            len(each) == 1 and isinstance(next(iter(each)), int | float) for each in seen.values()
        )
    }


def compare(arguments: Sequence[str], options: Options) -> Comparison:
    """Compares the runs in the given folders.

    Raises:
      UserError: what is named is not there, no run is complete, data would be mixed, or flags
        exclude each other.
    """
    if options.include_running and options.split == "test":
        raise UserError(
            "--include_running takes unfinished runs, which have dev scores alone, so --split=test "
            "cannot be had with it: drop one of the two"
        )
    runs = find_runs(arguments)
    also_averaged = sum(bool(run.result.get("average")) for run in runs)
    if options.checkpoint == "average":
        runs = [run.averaged() for run in runs]
    groups = grouping.group_runs(runs, options.keys)
    mixed = grouping.check_not_mixed(groups, include_running=options.include_running)
    if mixed and not options.allow_mixed:
        more = f" (and {len(mixed) - 1} more such)" if len(mixed) > 1 else ""
        raise UserError(
            f"{mixed[0]}{more}: compare them apart, or give --allow_mixed to do it all the same"
        )
    _check_metric(options.metric, runs)
    chosen, rejected = _choose(groups, runs, options)
    grouped = {id(run) for group in groups for run in group.runs}
    rejected += [(run, run.reason) for run in runs if id(run) not in grouped]
    if not chosen:
        raise UserError(_nothing_to_compare(rejected))
    examples = testing.ExampleScores()
    testing.fill_in_intervals(chosen, examples)
    testing.fill_in_tests(chosen, testing.find_baselines(chosen, options.baseline), examples)
    _mark_pareto(chosen)
    comparison = Comparison(tuple(chosen), tuple(runs), tuple(rejected), (), _signatures(chosen))
    lines = cautions.find(comparison.panels(), mixed, examples.missing, options.baseline)
    if also_averaged:
        lines.append(cautions.of_averages(options.checkpoint, also_averaged))
    return dataclasses.replace(comparison, cautions=tuple(lines))


def _choose(
    groups: Sequence[Group], runs: Sequence[Run], options: Options
) -> tuple[list[Chosen], list[tuple[Run, str]]]:
    splits: dict[Block, str] = {}
    chosen, rejected = [], []
    for group in groups:
        if group.block not in splits:
            wanted = "dev" if options.include_running else options.split
            splits[group.block] = split_of(group.block, runs, wanted=wanted)
        found, left_out = choose(
            group,
            keys=options.keys,
            metric=options.metric,
            split=splits[group.block],
            include_running=options.include_running,
        )
        rejected += left_out
        if found:
            chosen.append(found)
    blocks = list(dict.fromkeys(c.row.key for c in chosen))
    chosen.sort(key=lambda c: (blocks.index(c.row.key), -c.row.dev_mean))
    return chosen, rejected


def _check_metric(metric: str | None, runs: Sequence[Run]) -> None:
    known = dict.fromkeys(name for run in runs for name in run.metrics)
    if metric is not None and metric not in known:
        raise UserError(
            f"--metric={metric}: no run has it{did_you_mean(metric, known)}; "
            f"there are {', '.join(known)}"
        )


def _nothing_to_compare(rejected: Sequence[tuple[Run, str]]) -> str:
    first = "; ".join(f"{run.workdir}: {reason}" for run, reason in rejected[:3])
    more = f"; and {len(rejected) - 3} more" if len(rejected) > 3 else ""
    hint = ""
    if any(run.status in ("running", "interrupted") for run, _ in rejected):
        hint = "; --include_running takes unfinished runs at their best dev score so far"
    return f"none of {len(rejected)} runs can be compared ({first}{more}){hint}"


def _mark_pareto(everything: Sequence[Chosen]) -> None:
    """Marks the rows of each panel on its front of score and training time."""
    panels: dict[tuple[str, ...], list[tuple[float, Row]]] = {}
    for chosen in everything:
        seconds = chosen.row.train_seconds
        if seconds is not None:
            panels.setdefault(chosen.row.key, []).append((seconds, chosen.row))
    for timed in panels.values():
        costs, gains = [seconds for seconds, _ in timed], [row.gain for _, row in timed]
        for index in pareto.front(costs, gains):
            timed[index][1].pareto_time = True


def _signatures(everything: Sequence[Chosen]) -> tuple[str, ...]:
    found = [
        bleu_signature(run, chosen.row.split)
        for chosen in everything
        for run in chosen.setting.runs.values()
    ]
    return tuple(dict.fromkeys(signature for signature in found if signature))
