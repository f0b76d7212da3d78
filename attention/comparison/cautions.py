"""What limits the conclusions of a comparison, one line each."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attention.comparison import formats
from attention.comparison.budgets import SPENT
from attention.comparison.rows import Chosen, Row
from attention.comparison.testing import LEVEL

_SPREAD = 0.02  # of a budget, from which rows are not at the same one
_COSTS = {
    "num_params": ("parameters", formats.whole),
    "steps": ("steps", formats.whole),
    "flops": ("FLOPs", formats.short),
    "train_seconds": ("seconds of training", formats.seconds),
}
_FEW_SEEDS = 5
_MANY_ROWS = 4
_MOST_NAMES = 12
_PLACES = {"device_kind": "devices", "dtype": "dtypes", "matmul_precision": "matmul precisions"}
_SOFTWARE = ("jax", "flax", "optax")


def find(
    panels: Mapping[tuple[str, ...], Sequence[Chosen]],
    mixed: Sequence[str],
    no_examples: Mapping[str, str],
    baseline: str | None,
) -> list[str]:
    """Returns the lines, the gravest first.

    Args:
      panels: rows that are compared with each other.
      mixed: mixtures of data that the user allowed.
      no_examples: why runs have no scores by example.
      baseline: the variant that the user named.
    """
    lines = [f"mixed by --allow_mixed: {line}" for line in mixed]
    tests = sum(c.row.p_value is not None for members in panels.values() for c in members)
    where: dict[str, list[str]] = {}  # the panels that a line is about
    for members, name in zip(panels.values(), _names(list(panels.values())), strict=True):
        rows = [chosen.row for chosen in members]
        for line in (
            *_about_data(members),
            *_about(rows, baseline),
            *_about_power(rows, tests),
            *_about_ends(members),
            *_about_software(members),
            *_about_many_rows(members),
        ):
            where.setdefault(line, []).append(name)
    for line, names in where.items():
        if len(panels) == 1:
            lines.append(line)
        else:
            of = "everywhere" if len(names) == len(panels) else "; ".join(names)
            lines.append(f"{of}: {line}")
    if no_examples:
        first = next(iter(no_examples.values()))
        lines.append(
            f"{len(no_examples)} runs have no scores by example, so nothing is tested over test "
            f"examples where they take part; the first: {first}"
        )
    return lines


def of_averages(checkpoint: str, number: int) -> str:
    """Which of two scores is shown, where runs have both."""
    if checkpoint == "average":
        return "scores are those of averaged checkpoints, in place of each run's best one"
    return (
        f"{number} runs have averaged checkpoints too, whose scores are not shown: the best one of "
        "each run is, as of runs without (--checkpoint=average)"
    )


def panel_name(row: Row) -> str:
    """Task, data set and what else the rows of a panel share, in short."""
    rest = ", ".join(part for part in (row.languages, row.size, row.panel) if part)
    return f"{row.task} on {row.dataset}" + (f" ({rest})" if rest else "")


def _names(panels: Sequence[Sequence[Chosen]]) -> list[str]:
    """Of each panel its name, or what alone parts it from the others."""
    first = [members[0].row for members in panels]
    blocks = {(row.task, row.dataset, row.size, row.languages) for row in first}
    return [row.panel if len(blocks) == 1 and row.panel else panel_name(row) for row in first]


def _about(rows: Sequence[Row], baseline: str | None) -> Iterator[str]:
    if len(rows) > 1:
        yield from _about_budgets(rows)
        yield from _about_effort(rows)
        if not any(row.baseline for row in rows):
            name = baseline or "scaled_dot"
            yield f"no row is of the baseline {name}, so nothing is tested (--baseline=VARIANT)"
    for key, name in _PLACES.items():
        values = dict.fromkeys(str(getattr(row, key)) for row in rows)
        if len(values) > 1 or "/" in next(iter(values)):
            yield f"runs are on different {name} ({', '.join(values)}): costs do not compare"
    yield from _about_runs_at_once(rows)
    yield from _about_seeds(rows)
    yield from _about_baselines(rows)


def _about_budgets(rows: Sequence[Row]) -> Iterator[str]:
    kinds = {row.budget for row in rows}
    budget = SPENT.get(kinds.pop() or "") if len(kinds) == 1 else None
    for key, (name, write) in _COSTS.items():
        if key == "train_seconds" and key != budget:
            continue  # never equal where nothing made it so
        known = {row.name: value for row in rows if (value := getattr(row, key))}
        if len(known) < 2:
            continue
        least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
        spread = known[most] / known[least] - 1
        if spread > _SPREAD:
            yield (
                f"{name} differ by up to {100 * spread:.0f} % ({least} {write(known[least])}, "
                f"{most} {write(known[most])}): not a comparison at equal {name}"
                + (", though they were the budget" if key == budget else "")
            )


def _about_runs_at_once(rows: Sequence[Row]) -> Iterator[str]:
    numbers: dict[str, list[str]] = {}
    for row in rows:
        numbers.setdefault(row.runs_at_once, []).append(row.name)
    if len(numbers) > 1 or "/" in next(iter(numbers)):
        listed = " and ".join(f"{number} ({_some(names)})" for number, names in numbers.items())
        yield (
            f"runs were trained {listed} at once: train time and memory are those of all that "
            "one program trained, tokens/s those of one in that time, so they do not compare"
        )


def _about_effort(rows: Sequence[Row]) -> Iterator[str]:
    settings = {row.name: row.n_settings for row in rows}
    if len(set(settings.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in settings.items())
        yield f"tuning was not equal: settings tried are {listed}"


def _about_seeds(rows: Sequence[Row]) -> Iterator[str]:
    single = [row.name for row in rows if row.n_seeds == 1]
    if single:
        yield (
            f"one seed only for {_some(single, len(rows))}: the spread over seeds is not known, "
            "so there is no interval and no test over seeds"
        )
    few = {row.n_seeds for row in rows if 1 < row.n_seeds < _FEW_SEEDS}
    if few:
        n = min(few)
        yield (
            f"{n} seeds: bootstrap intervals understate the spread over seeds (table.csv has "
            f"Student's), and the exact sign-flip test cannot give p below {2.0 ** (1 - n):g}"
        )
    uneven = {row.name: row.n_seeds for row in rows}
    if len(set(uneven.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in uneven.items())
        yield f"numbers of seeds differ: {listed}"


def _about_power(rows: Sequence[Row], tests: int) -> Iterator[str]:
    """What could not have been seen, where a reader might take unclear for equal."""
    unclear = [row for row in rows if row.p_holm is not None and row.p_holm >= LEVEL]
    sizes = [row.least_significant for row in unclear if row.least_significant is not None]
    if sizes:
        metric = rows[0].metric
        low, middle, high = (
            formats.score(size, metric)
            for size in (min(sizes), statistics.median(sizes), max(sizes))
        )
        yield (
            f"not distinguishable is not equal: over these seeds, in {tests} comparisons, a "
            f"difference had to be about {middle} in {formats.metric_label(metric)} to be "
            f"significant (median; {low} to {high}, by the row's spread); more seeds or fewer "
            "rows see smaller ones"
        )


def _about_baselines(rows: Sequence[Row]) -> Iterator[str]:
    name = next((row.baseline for row in rows if row.baseline), None)
    if name is None:
        return
    variant = next(row.variant for row in rows if row.name == name)
    same = [row.name for row in rows if row.variant == variant]
    if len(same) > 1:
        yield f"{len(same)} rows are of the baseline; tests are against {name}, the best on dev"
    welch = [row.name for row in rows if row.n_pairs == 0]
    if welch:
        yield f"{', '.join(welch)}: seeds are not those of the baseline, so were not paired"


def _about_data(members: Sequence[Chosen]) -> Iterator[str]:
    data: dict[str, list[str]] = {}
    for chosen in members:
        for run in chosen.setting.runs.values():
            data.setdefault(str(run.result.get("data_hash"))[:12], []).append(chosen.row.name)
    if len(data) > 1:
        listed = "; ".join(f"{_some(list(dict.fromkeys(of)))} on {h}" for h, of in data.items())
        yield f"rows were trained on different data (data_hash): {listed}"


def _about_ends(members: Sequence[Chosen]) -> Iterator[str]:
    """Where more tuning, or longer training, might have changed a score."""
    at_ends: dict[tuple[str, str], list[str]] = {}
    for chosen in members:
        for key, value in chosen.setting.tuned:
            values = [dict(items).get(key) for items in chosen.tried]
            tried = {each for each in values if isinstance(each, int | float)}
            if value in tried and value in (min(tried), max(tried)):
                end = "lowest" if value == min(tried) else "highest"
                at_ends.setdefault((key, end), []).append(chosen.row.name)
    for (key, end), names in at_ends.items():
        of = _some(names, len(members))
        yield f"the best {key} is the {end} that was tried, and a better one may lie beyond: {of}"
    still = [
        chosen.row.name
        for chosen in members
        if all(run.result.get("best_step") == run.result.get("step")
               for run in chosen.setting.runs.values())
    ]  # fmt: skip
    if still:
        of = _some(still, len(members))
        yield f"still best at the last step, so perhaps not yet at their best: {of}"


def _about_software(members: Sequence[Chosen]) -> Iterator[str]:
    runs = [run for chosen in members for run in chosen.setting.runs.values()]
    for package in _SOFTWARE:
        versions = {str((run.result.get("versions") or {}).get(package)) for run in runs}
        if len(versions) > 1:
            listed = ", ".join(sorted(versions))
            yield f"runs were made with different versions of {package}: {listed}"


def _about_many_rows(members: Sequence[Chosen]) -> Iterator[str]:
    """Of a search over keys that are not tuned by default, each trial is a row."""
    variants = Counter(chosen.row.variant for chosen in members)
    for variant, count in variants.items():
        groups = [chosen.group for chosen in members if chosen.row.variant == variant]
        keys = {item[0] for group in groups for item in group.shown if item not in group.panel}
        if count > _MANY_ROWS and keys:
            listed = ",".join(sorted(keys))
            yield f"{variant} has {count} rows: --tuned={listed} takes the one that is best on dev"


def _some(names: Sequence[str], number_of_all: int = 0) -> str:
    if len(names) > _MANY_ROWS and len(names) == number_of_all:
        return f"all {len(names)} rows"
    return ", ".join(names) if len(names) <= _MOST_NAMES else f"{len(names)} rows"
