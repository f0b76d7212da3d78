"""Means, intervals and tests over seeds, and Holm's correction.

The replication is the training run: with n seeds there are n numbers, however many examples each
was measured on. `resampling` adds what the test examples say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

# Up to so many differences every assignment of signs is tried: 2^12 of them.
_EXACT_UP_TO = 12
_SIGN_DRAWS = 10_000


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


class SeedTest(NamedTuple):
    """Two-sided tests of no mean difference over seeds, and what they were made of."""

    difference: float  # of the means, this minus the baseline
    p: float | None  # paired t-test; Welch's where the seeds differ
    p_permutation: float | None  # sign flips of the paired differences
    num_pairs: int
    name: str
    error: float | None = None  # the standard error of the difference
    freedom: float | None = None  # the degrees of freedom of its t statistic

    def least_significant(self, level: float) -> float | None:
        """The smallest difference that this spread over seeds would have left significant."""
        if self.error is None or self.freedom is None:
            return None
        return float(stats.t.isf(level / 2, self.freedom)) * self.error


def standard_deviation(values: Sequence[float]) -> float | None:
    """The sample standard deviation (divided by n - 1); None for fewer than two."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def t_interval(values: Sequence[float], *, level: float = 0.95) -> Interval | None:
    """Student's interval of the mean, for normal values; None for fewer than two."""
    n, sd = len(values), standard_deviation(values)
    if sd is None:
        return None
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * sd / math.sqrt(n)
    mean = float(np.mean(values))
    return Interval(mean - half, mean + half)


def compare_seeds(scores: Mapping[str, float], baseline: Mapping[str, float]) -> SeedTest | None:
    """Tests the means of two sets of runs; None where either has too few.

    Args:
      scores, baseline: a score by seed. Seeds that both have are paired; where fewer than two are
        common, Welch's test compares the means without pairs.
    """
    common = sorted(scores.keys() & baseline.keys())
    if len(common) >= 2:
        differences = np.array([scores[seed] - baseline[seed] for seed in common])
        p_permutation = sign_flip_test(differences)
        p_t = paired_t_test(differences)
        # Without spread a t statistic is 0/0 or infinite, and says nothing.
        mean, n = float(differences.mean()), len(common)
        if p_t is None:
            return SeedTest(mean, p_permutation, p_permutation, n, "sign-flip permutation")
        error = float(np.std(differences, ddof=1)) / math.sqrt(n)
        return SeedTest(mean, p_t, p_permutation, n, "paired t", error, n - 1)
    if len(scores) >= 2 and len(baseline) >= 2:
        a, b = list(scores.values()), list(baseline.values())
        return _welch(a, b)
    return None


def paired_t_test(differences: np.ndarray) -> float | None:
    """The two-sided p of no mean difference; None where all differences are one number."""
    size = float(np.max(np.abs(differences)))
    if np.ptp(differences) <= 1e-12 * max(size, 1e-300):
        return None
    found: Any = stats.ttest_1samp(differences, 0.0)
    return float(found.pvalue)


def _welch(a: list[float], b: list[float]) -> SeedTest:
    difference, name = float(np.mean(a) - np.mean(b)), "Welch's t, seeds not paired"
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return SeedTest(difference, None, None, 0, name)
    found: Any = stats.ttest_ind(a, b, equal_var=False)
    error = math.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    return SeedTest(difference, float(found.pvalue), None, 0, name, error, float(found.df))


def sign_flip_test(differences: np.ndarray) -> float:
    """The two-sided p of the mean under flips of each difference's sign.

    Exact up to 12 differences, where the least possible p is 2^(1-n): 0.25 for n = 3, 0.0625 for
    n = 5, 0.031 for n = 6. Beyond, 10,000 drawn flips, the observed one counted.
    """
    n = len(differences)
    if n <= _EXACT_UP_TO:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        signs = 1 - 2 * bits
    else:
        drawn = np.random.default_rng(0).integers(0, 2, (_SIGN_DRAWS - 1, n))
        signs = np.concatenate([np.ones((1, n), int), 1 - 2 * drawn])
    sizes = np.abs(signs @ differences)
    return float(np.mean(sizes >= sizes[0] * (1 - 1e-9)))


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's mid-p of paired right and wrong answers (Fagerland et al. 2013).

    Twice the smaller tail of Binomial(n, 1/2), with half of the observed count's probability.

    Args:
      only_first, only_second: how many examples one of the two has right and the other wrong.
    """
    n, fewer = only_first + only_second, min(only_first, only_second)
    if not n:
        return 1.0
    tail = stats.binom.cdf(fewer, n, 0.5) - 0.5 * stats.binom.pmf(fewer, n, 0.5)
    return float(min(1.0, 2 * tail))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) adjusted p-values, in the order given; None stays None and is not counted."""
    given = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(given):
        largest = max(largest, min(1.0, (len(given) - rank) * p))
        adjusted[index] = largest
    return adjusted
