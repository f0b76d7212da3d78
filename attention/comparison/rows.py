"""The rows of a comparison: what was chosen on dev, its score, its costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attention.comparison import budgets, grouping
from attention.comparison.grouping import Block, Group, Items, Keys
from attention.comparison.resampling import bootstrap_seeds
from attention.comparison.runs import COMPLETE, UNFINISHED, Run
from attention.comparison.statistics import Interval, standard_deviation, t_interval

MEASURED = ("tokens_per_second", "peak_memory_bytes", "train_seconds")
LOWER_IS_BETTER = ("loss",)
_NOT_ENDED = (*UNFINISHED, "not evaluated", "planned")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Runs that differ in their seed alone."""

    tuned: Items  # the tuned keys in which those that were tried differ
    runs: Mapping[str, Run]  # by seed
    dev: float  # the mean over seeds of the first metric on dev, by which it is chosen


@dataclasses.dataclass
class Row:
    """One variant in one setting: the names of the fields are those of table.json.

    Scores are those of the metric on the split; costs are means over the runs, those of MEASURED
    medians, of memory over the runs that know it, and the time of compilation is the most of any
    trial. `p_value` and the
    fields after `baseline` are filled in by `attention.comparison.testing`.
    """

    task: str
    dataset: str
    variant: str
    size: str
    metric: str
    split: str
    n_seeds: int
    mean: float
    sd: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    p_holm: float | None
    baseline: str | None
    num_params: float | None
    steps: float | None
    flops: float | None
    n_trials: int
    tokens_per_second: float | None
    peak_memory_bytes: float | None
    compile_seconds: float | None
    train_seconds: float | None
    device_kind: str
    dtype: str
    matmul_precision: str
    workdirs: list[str]
    # Beyond what docs promise to other programs:
    languages: str
    panel: str  # what the rows compared with each other have in common
    setting: str  # what sets this row apart from the others of its variant
    tuned: str  # the chosen setting, where there was a choice
    n_settings: int
    dev_metric: str
    dev_mean: float
    ci_method: str | None
    t_low: float | None
    t_high: float | None
    budget: str | None  # what the sweep of all its runs made equal: params, steps, flops, time
    budget_amount: float | None
    runs_at_once: str  # by one program; times and memory are those of all of them
    checkpoint: str = "best"  # of each run; "average": the mean of its last ones
    examples_low: float | None = None
    examples_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    test: str | None = None
    n_pairs: int | None = None
    p_permutation: float | None = None
    # The smallest difference that would have been significant over seeds, with this row's spread
    # and the other comparisons as they are.
    least_significant: float | None = None
    p_examples: float | None = None
    p_examples_holm: float | None = None
    p_mcnemar: dict[str, float] | None = None
    verdict: str | None = None
    pareto_time: bool = False

    @property
    def name(self) -> str:
        """The variant, with what sets it apart."""
        return f"{self.variant} ({self.setting})" if self.setting else self.variant

    @property
    def key(self) -> tuple[str, ...]:
        """What its panel is: rows with the same key are compared."""
        return (self.task, self.dataset, self.languages, self.size, self.panel)

    @property
    def gain(self) -> float:
        """The score, negative where a lower one is better."""
        return -self.mean if self.metric in LOWER_IS_BETTER else self.mean

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A row with the runs behind it and the settings it was chosen from."""

    row: Row
    group: Group
    setting: Setting
    settings: tuple[Setting, ...]
    tried: tuple[Items, ...]  # `tuned` of these and of those that came to no score
    rejected: Sequence[tuple[Run, str]]  # runs of the group that do not count, and why

    @property
    def scores(self) -> dict[str, float]:
        """The score of each seed."""
        scores = {
            seed: run.score(self.row.split, self.row.metric)
            for seed, run in self.setting.runs.items()
        }
        return {seed: score for seed, score in scores.items() if score is not None}


def choose(
    group: Group, *, keys: Keys, metric: str | None, split: str, include_running: bool
) -> tuple[Chosen | None, list[tuple[Run, str]]]:
    """Makes the row of a group; None where no run counts. Also returns the runs that do not.

    Of the settings that have the most seeds, the one with the best mean of the first metric on dev
    is taken; test scores have no part in it.
    """
    counted, rejected = _counted(group.runs, metric, split, include_running)
    if not counted:
        return None, rejected
    tried = _tried(group.runs, counted, keys)
    shown = grouping.differing(tried)
    settings, repeats = _settings(counted, keys, shown)
    rejected += repeats
    most = max(len(setting.runs) for setting in settings)
    eligible = [setting for setting in settings if len(setting.runs) == most]
    best = max(eligible, key=lambda setting: setting.dev)  # the first of equals
    row = _row(group, best, len(tried), metric or first_metric(group.runs), split)
    in_short = tuple(_only(items, shown) for items in tried)
    return Chosen(row, group, best, tuple(settings), in_short, rejected), rejected


def first_metric(runs: Sequence[Run]) -> str:
    """The metric that decides what is best, which is higher where better."""
    return next(run.metrics[0] for run in runs if run.metrics)


def _counted(
    runs: Sequence[Run], metric: str | None, split: str, include_running: bool
) -> tuple[list[Run], list[tuple[Run, str]]]:
    counted, rejected = [], []
    for run in runs:
        may = run.status == COMPLETE or (include_running and run.status in UNFINISHED)
        if not may or not run.metrics:
            rejected.append((run, run.reason or "it has no dev score"))
        elif run.score("dev", run.metrics[0]) is None:
            rejected.append((run, f"its dev {run.metrics[0]} is no number"))
        elif run.score(split, metric or run.metrics[0]) is None:
            rejected.append((run, f"it has no {split} {metric or run.metrics[0]}"))
        else:
            counted.append(run)
    return counted, rejected


def _tried(runs: Sequence[Run], counted: Sequence[Run], keys: Keys) -> list[Items]:
    """The tuned items of each setting once, also of those whose runs all failed or were pruned.

    They are effort as well, and a rate that diverged bounds the best one. A setting whose runs are
    all still in training has had no chance to be chosen, and is not among them.
    """
    ended = [run for run in runs if run.status not in _NOT_ENDED]
    return list(dict.fromkeys(grouping.tuned_items(run, keys) for run in (*counted, *ended)))


def _only(items: Items, shown: set[str]) -> Items:
    return tuple((key, value) for key, value in items if key in shown)


def _settings(
    runs: Sequence[Run], keys: Keys, shown: set[str]
) -> tuple[list[Setting], list[tuple[Run, str]]]:
    by_items: dict[Items, dict[str, Run]] = {}
    repeats = []
    for run in runs:
        seeds = by_items.setdefault(grouping.tuned_items(run, keys), {})
        first = seeds.setdefault(grouping.replicate(run), run)
        if first is not run:
            # The same run again would make the spread over seeds look smaller than it is.
            repeats.append((run, f"it repeats seed {run.seed} of {first.workdir}"))
    metric = first_metric(runs)
    settings = [
        Setting(_only(items, shown), seeds, float(np.mean(_scores(seeds.values(), "dev", metric))))
        for items, seeds in by_items.items()
    ]
    return settings, repeats


def _row(group: Group, best: Setting, n_settings: int, metric: str, split: str) -> Row:
    runs = list(best.runs.values())
    values = _scores(runs, split, metric)
    interval, student = bootstrap_seeds(values), t_interval(values)
    own = tuple(item for item in group.shown if item not in group.panel)
    measured: dict[str, Any] = {name: median_of(runs, name) for name in MEASURED}
    measured["peak_memory_bytes"] = _memory(runs)
    budget = budgets.shared(run.budget for run in runs)
    return Row(
        task=group.block.task,
        dataset=group.block.dataset,
        languages=group.block.languages,
        variant=group.variant,
        size=group.size,
        metric=metric,
        split=split,
        n_seeds=len(values),
        mean=float(np.mean(values)),
        sd=standard_deviation(values),
        **_ends("ci", interval),
        ci_method="percentile bootstrap over seeds" if interval else None,
        **_ends("t", student),
        p_value=None,
        p_holm=None,
        baseline=None,
        num_params=mean_of(runs, "num_params"),
        steps=mean_of(runs, "step"),
        flops=mean_of(runs, "flops"),
        **measured,
        compile_seconds=_most_of(group.runs, "compile_seconds"),
        n_trials=len(group.runs),
        n_settings=n_settings,
        device_kind=_all_of(runs, "device_kind"),
        dtype=_all_of(runs, "dtype"),
        matmul_precision=_all_of(runs, "matmul_precision"),
        budget=budget and budget.kind,
        budget_amount=budget and budget.amount,
        runs_at_once=_all_of(runs, "runs_at_once", default=1),
        workdirs=[run.workdir for run in runs],
        panel=grouping.describe(group.panel),
        setting=grouping.describe(own),
        tuned=grouping.describe(best.tuned),
        dev_metric=first_metric(runs),
        dev_mean=best.dev,
        checkpoint="average" if runs[0].is_averaged else "best",
    )


def _scores(runs: Iterable[Run], split: str, metric: str) -> list[float]:
    return [score for run in runs if (score := run.score(split, metric)) is not None]


def _ends(name: str, interval: Interval | None) -> dict[str, Any]:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def mean_of(runs: Sequence[Run], key: str) -> float | None:
    """The mean of a number of result.json; None where a run lacks it. Whole where all agree."""
    return _over(runs, key, np.mean)


def median_of(runs: Sequence[Run], key: str) -> float | None:
    """Likewise the median: a run that had to wait counts no more than others."""
    return _over(runs, key, np.median)


def _memory(runs: Sequence[Run]) -> float | None:
    """The median of the runs that know theirs: of those that one process made after each other on
    a GPU, it may be the first alone."""
    known = [run for run in runs if run.result.get("peak_memory_bytes") is not None]
    return median_of(known, "peak_memory_bytes") if known else None


def _over(runs: Sequence[Run], key: str, average: Callable[..., Any]) -> float | None:
    values = [run.result.get(key) for run in runs]
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return None
    return numbers[0] if len(set(numbers)) == 1 else float(average(numbers))


def _most_of(runs: Sequence[Run], key: str) -> float | None:
    """The largest number: of trials that share a program, the first alone has compiled it."""
    values = [run.result.get(key) for run in runs]
    return max((value for value in values if isinstance(value, int | float)), default=None)


def _all_of(runs: Sequence[Run], key: str, *, default: Any = None) -> str:
    return "/".join(dict.fromkeys(str(run.result.get(key, default)) for run in runs))


def split_of(block: Block, runs: Sequence[Run], *, wanted: str) -> str:
    """The split that a block is compared on: test where a complete run has one, else dev."""
    if wanted != "auto":
        return wanted
    here = [run for run in runs if grouping.block_of(run) == block and run.status == COMPLETE]
    return "test" if any(run.result.get("test") for run in here) else "dev"
