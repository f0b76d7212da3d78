"""The columns of the tables that people read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from attention.comparison import formats
from attention.comparison.resampling import RANDOMISATION_DRAWS
from attention.comparison.rows import Row


class Column(NamedTuple):
    """A column: its head, what it is in a sentence, its cell, and the number it is sorted by."""

    head: str
    meaning: str
    cell: Callable[[Row], str]
    number: Callable[[Row], float | None] | None = None  # None: text


class Columns(NamedTuple):
    """What is told of rows: two tables beside the column of names, the most important first.

    Attributes:
      name: of the row.
      scores: the score, its tests.
      costs: what was spent, how it was tuned, and where it ran.
      same: costs with one value in all of several rows, as "steps 400".
    """

    name: Column
    scores: list[Column]
    costs: list[Column]
    same: list[str]


_DEV = Column(
    "dev",
    "the mean by which settings are chosen and rows are sorted",
    lambda row: formats.score(row.dev_mean, row.dev_metric),
    lambda row: row.dev_mean,
)


def columns(rows: Sequence[Row]) -> Columns:
    """The columns for rows that share a metric and a baseline."""
    tested = any(row.difference is not None for row in rows)

    def name(row: Row) -> str:
        return f"{row.name} [baseline]" if tested and row.baseline == row.name else row.name

    costs, same = [], []
    for column in _cost_columns(rows):
        cells = {column.cell(row) for row in rows}
        if len(rows) > 1 and len(cells) == 1:
            same.append(f"{column.head} {cells.pop()}")
        else:
            costs.append(column)
    return Columns(
        Column(
            "variant",
            "the attention mechanism or what is in its place, and what sets the row apart",
            name,
        ),
        [*_score_columns(rows), *(_test_columns(rows, rows[0].metric) if tested else []), _DEV],
        costs,
        same,
    )


def _score_columns(rows: Sequence[Row]) -> list[Column]:
    metric, split = rows[0].metric, rows[0].split
    found = [
        Column(
            f"{split} {formats.metric_label(metric)}",
            f"mean ± standard deviation over seeds of the {split} score",
            formats.score_text,
            lambda row: row.mean,
        ),
        Column("n", "seeds", lambda row: str(row.n_seeds), lambda row: row.n_seeds),
    ]
    if any(row.ci_low is not None for row in rows):
        found.append(
            Column(
                "95 % interval",
                "bootstrap interval of the mean",
                lambda row: formats.interval_text(row.ci_low, row.ci_high, metric),
                lambda row: row.ci_low,
            )
        )
    return found


def _test_columns(rows: Sequence[Row], metric: str) -> list[Column]:
    found = [
        Column(
            "difference",
            "of the means, this row minus the baseline",
            lambda row: formats.signed(row.difference, metric),
            lambda row: row.difference,
        )
    ]
    if any(row.p_holm is not None for row in rows):
        found.append(
            Column(
                "p seeds",
                "of the test over seeds, after Holm's correction (p_value in table.csv: before)",
                lambda row: formats.p_text(row.p_holm),
                lambda row: row.p_holm,
            )
        )
    if any(row.p_examples_holm is not None for row in rows):
        found.append(
            Column(
                "p examples",
                "of the test over examples, after Holm's correction; ≤ where no draw was as large",
                _p_examples,
                lambda row: row.p_examples_holm,
            )
        )
    if any(row.verdict for row in rows):
        found.append(
            Column(
                "verdict",
                "at 5 %, by both tests where there are both",
                lambda row: row.verdict or formats.DASH,
            )
        )
    if any(row.difference_low is not None for row in rows):
        found.append(
            Column(
                "95 % of difference",
                "its bootstrap interval, over seeds and test examples, of this comparison alone",
                lambda row: formats.signed_interval(
                    row.difference_low, row.difference_high, metric
                ),
                lambda row: row.difference_low,
            )
        )
    return found


def _p_examples(row: Row) -> str:
    at_most = row.p_examples is not None and row.p_examples <= 1 / (RANDOMISATION_DRAWS + 1)
    if not at_most or row.p_examples_holm is None or row.p_examples_holm < 0.001:
        return formats.p_text(row.p_examples_holm)
    return f"≤{math.ceil(1000 * row.p_examples_holm - 1e-6) / 1000:.3f}"


def _cost_columns(rows: Sequence[Row]) -> list[Column]:
    found = [
        Column("params", "parameters", lambda r: formats.short(r.num_params),
               lambda r: r.num_params),
        Column("train time", "in training steps, the median over seeds",
               lambda r: formats.seconds(r.train_seconds), lambda r: r.train_seconds),
        Column("FLOPs", "of the whole training", lambda r: formats.short(r.flops),
               lambda r: r.flops),
        Column("tokens/s", "real tokens a second in training, the median over seeds",
               lambda r: formats.short(r.tokens_per_second), lambda r: r.tokens_per_second),
        Column("memory", "at the peak of a run, the median over seeds",
               lambda r: formats.memory(r.peak_memory_bytes), lambda r: r.peak_memory_bytes),
        Column("compile", "the most of any trial; short where the cache on disk had the program",
               lambda r: formats.seconds(r.compile_seconds), lambda r: r.compile_seconds),
        Column("steps", "updates", lambda r: formats.whole(r.steps), lambda r: r.steps),
        Column("settings", "tuned settings tried", lambda r: str(r.n_settings),
               lambda r: r.n_settings),
        Column("trials", "runs behind the row, whatever their ending", lambda r: str(r.n_trials),
               lambda r: r.n_trials),
    ]  # fmt: skip
    if any(row.budget for row in rows):
        meaning = "what the sweep made equal in all of its trials"
        found.append(Column("budget", meaning, formats.budget_text))
    if any(row.runs_at_once != "1" for row in rows):
        meaning = "runs trained by one program; time and memory are those of all of them"
        found.append(Column("at once", meaning, lambda r: r.runs_at_once))
    if any(row.tuned for row in rows):
        found.append(Column("chosen on dev", "the tuned setting", lambda r: r.tuned))
    places = ("device_kind", "device"), ("dtype", "dtype"), ("matmul_precision", "precision")
    for key, head in places:
        found.append(Column(head, f"{head} of the runs", lambda row, key=key: getattr(row, key)))
    return found
