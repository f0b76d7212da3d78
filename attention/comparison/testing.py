"""Intervals and tests that need several rows or single examples, filled into the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from attention.comparison import resampling
from attention.comparison.examples import METRICS, Examples, NoExamples, load_examples
from attention.comparison.rows import LOWER_IS_BETTER, Chosen, Row
from attention.comparison.statistics import SeedTest, compare_seeds, holm, mcnemar
from attention.errors import UserError, did_you_mean

DEFAULT_BASELINE = "scaled_dot"
LEVEL = 0.05  # of significance, after Holm's correction
BETTER, WORSE, UNCLEAR = "better", "worse", "not distinguishable"


class ExampleScores:
    """Statistics by example of the runs, read once; what cannot be had is said once."""

    def __init__(self) -> None:
        self._found: dict[str, Examples | None] = {}
        self.missing: dict[str, str] = {}  # why, by run

    def of(self, chosen: Chosen) -> dict[str, Examples]:
        """By seed, of the runs that have them; none where the metric has no such scores."""
        row, found = chosen.row, {}
        if row.metric not in METRICS:
            return {}
        for seed, run in chosen.setting.runs.items():
            if run.workdir not in self._found:
                try:
                    self._found[run.workdir] = load_examples(run, row.split, row.metric)
                except NoExamples as reason:
                    self._found[run.workdir] = None
                    self.missing[run.workdir] = str(reason)
            examples = self._found[run.workdir]
            if examples is not None:
                found[seed] = examples
        return found


def fill_in_intervals(everything: Iterable[Chosen], examples: ExampleScores) -> None:
    """Puts hierarchical bootstrap intervals where all runs of a row have scores by example."""
    for chosen in everything:
        row, found = chosen.row, examples.of(chosen)
        if len(found) < row.n_seeds or not _same_examples(found.values()):
            continue
        interval = resampling.bootstrap(row.metric, _stack(found, sorted(found)))
        if row.n_seeds == 1:  # nothing is known of other seeds, so it is no interval of the mean
            row.examples_low, row.examples_high = interval
        else:
            row.ci_low, row.ci_high = interval
            row.ci_method = "percentile bootstrap over seeds and test examples"


def find_baselines(everything: Sequence[Chosen], wanted: str | None) -> dict[tuple, Chosen]:
    """Returns the baseline's row of each panel that has one; of several the best on dev.

    Args:
      everything: rows, those of a panel in order of their dev scores.
      wanted: the variant; None is `scaled_dot` where there is such a row.

    Raises:
      UserError: no row is of the wanted variant.
    """
    variants = dict.fromkeys(chosen.row.variant for chosen in everything)
    if wanted is not None and wanted not in variants:
        raise UserError(
            f"--baseline={wanted}: no complete run is of that variant"
            f"{did_you_mean(wanted, variants)}; there are {', '.join(variants)}"
        )
    found: dict[tuple, Chosen] = {}
    for chosen in everything:
        if chosen.row.variant == (wanted or DEFAULT_BASELINE):
            found.setdefault(chosen.row.key, chosen)
    return found


def fill_in_tests(
    everything: Sequence[Chosen], baselines: dict[tuple, Chosen], examples: ExampleScores
) -> None:
    """Tests each row against the baseline of its panel; Holm's correction is over all of them."""
    compared: list[Row] = []
    over_seeds: list[SeedTest | None] = []
    for chosen in everything:
        baseline = baselines.get(chosen.row.key)
        if baseline is None:
            continue
        chosen.row.baseline = baseline.row.name
        if baseline is not chosen:
            over_seeds.append(_test_seeds(chosen, baseline))
            _test_examples(chosen, baseline, examples)
            compared.append(chosen.row)
    for row, adjusted in zip(compared, holm([row.p_value for row in compared]), strict=True):
        row.p_holm = adjusted
    for row, adjusted in zip(compared, holm([row.p_examples for row in compared]), strict=True):
        row.p_examples_holm = adjusted
    number = sum(row.p_value is not None for row in compared)
    rejected = sum(row.p_holm is not None and row.p_holm < LEVEL for row in compared)
    for row, test in zip(compared, over_seeds, strict=True):
        row.verdict = verdict(row)
        if test is not None and row.p_holm is not None:
            # Holm's step for the largest p that is still significant, where this row's stood.
            smaller = rejected - (row.p_holm < LEVEL)
            row.least_significant = test.least_significant(LEVEL / (number - smaller))


def verdict(row) -> str | None:
    """What may be said of a row and its baseline; None where seeds allow no test.

    A difference counts that both the seeds and, where there are scores by example, the test
    examples bear out: each at the level, after correction.
    """
    if row.p_holm is None:
        return None
    sure = row.p_holm < LEVEL and (row.p_examples_holm is None or row.p_examples_holm < LEVEL)
    if not sure or row.difference is None:
        return UNCLEAR
    higher = row.difference > 0
    return BETTER if higher != (row.metric in LOWER_IS_BETTER) else WORSE


def _test_seeds(chosen: Chosen, baseline: Chosen) -> SeedTest | None:
    row = chosen.row
    row.difference = row.mean - baseline.row.mean
    if found := compare_seeds(chosen.scores, baseline.scores):
        row.p_value, row.p_permutation = found.p, found.p_permutation
        row.test, row.n_pairs = found.name, found.num_pairs
        # With other seeds left out, the difference is that of the seeds that were tested.
        row.difference = found.difference
    return found


def _test_examples(chosen: Chosen, baseline: Chosen, examples: ExampleScores) -> None:
    row = chosen.row
    ours, theirs = examples.of(chosen), examples.of(baseline)
    seeds = _common_seeds(ours, theirs)
    if not seeds or not _same_examples([*ours.values(), *theirs.values()]):
        return
    a, b = _stack(ours, [s for s, _ in seeds]), _stack(theirs, [s for _, s in seeds])
    row.p_examples = resampling.approximate_randomisation(row.metric, a, b)
    if len(seeds) > 1 and all(one == other for one, other in seeds):
        row.difference_low, row.difference_high = resampling.bootstrap(row.metric, a, b)
    if row.metric == "accuracy" and a[..., 1].max() <= 1:  # one decision an example
        row.p_mcnemar = {
            ours_at: mcnemar(*_only_one_right(a[i], b[i])) for i, (ours_at, _) in enumerate(seeds)
        }


def _common_seeds(ours: dict[str, Examples], theirs: dict[str, Examples]) -> list[tuple[str, str]]:
    """Pairs of seeds; where none is common, the first of one with the first of the other, ….

    The trained models are given in a test over examples, so pairs only make the numbers equal.
    """
    common = [seed for seed in ours if seed in theirs]
    if common:
        return [(seed, seed) for seed in common]
    return list(zip(ours, theirs, strict=False))


def _only_one_right(a: np.ndarray, b: np.ndarray) -> tuple[int, int]:
    return int(np.sum(a[:, 0] > b[:, 0])), int(np.sum(a[:, 0] < b[:, 0]))


def _same_examples(examples: Iterable[Examples]) -> bool:
    return len({e.references for e in examples}) == 1


def _stack(examples: dict[str, Examples], seeds: Sequence[str]) -> np.ndarray:
    return np.stack([examples[seed].statistics for seed in seeds])
