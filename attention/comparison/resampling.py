"""Bootstrap intervals and approximate randomisation over test examples, for corpus scores.

Arrays are `[k e s]`: k runs (seeds), e examples, s statistics (`attention.comparison.examples`).
All runs are scored on the same examples, so a draw of examples is one for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from attention.comparison.examples import score_of
from attention.comparison.statistics import Interval

BOOTSTRAP_DRAWS = 2_000
RANDOMISATION_DRAWS = 9_999
_CHUNK_ELEMENTS = 4_000_000  # of draws times examples at once: 32 MB


def bootstrap_seeds(values: Sequence[float], *, level: float = 0.95) -> Interval | None:
    """The percentile bootstrap of the mean over seeds; None for fewer than two.

    With few seeds it is too narrow: the spread of its means is √((n-1)/n) of what it should be, and
    its tails are those of a normal, not of Student's t.
    """
    if len(values) < 2:
        return None
    counts = _counts(np.random.default_rng(0), BOOTSTRAP_DRAWS, len(values))
    return _percentiles(counts @ np.asarray(values, np.float64) / len(values), level)


def bootstrap(
    metric: str,
    runs: Float[np.ndarray, "k e s"],
    minus: Float[np.ndarray, "k e s"] | None = None,
    *,
    level: float = 0.95,
) -> Interval:
    """The percentile bootstrap of a mean score over seeds and test examples.

    Each draw takes k of the k seeds and e of the e examples with replacement, the two
    independently (they are crossed, not nested; Owen 2007 shows that this errs on the wide side),
    scores every drawn run on the drawn examples, and averages. With k = 1 only examples are drawn.

    Args:
      minus: the baseline's runs, by the same seeds: then of the difference of means, with the same
        draws for both.
    """
    rng = np.random.default_rng(0)
    num_runs, num_examples, _ = runs.shape
    means = []
    for draws in _chunks(BOOTSTRAP_DRAWS, num_examples):
        seeds = _counts(rng, draws, num_runs) / num_runs
        examples = _counts(rng, draws, num_examples)
        scores = _scores(metric, examples, runs)
        if minus is not None:
            scores = scores - _scores(metric, examples, minus)
        means.append(np.einsum("rk,rk->r", seeds, scores))
    return _percentiles(np.concatenate(means), level)


def approximate_randomisation(
    metric: str, first: Float[np.ndarray, "k e s"], second: Float[np.ndarray, "k e s"]
) -> float:
    """The two-sided p of equal mean scores, by swapping the systems' outputs of examples.

    Noreen (1989), Riezler and Maxwell (2005): under the hypothesis that the two are alike, the
    outputs of an example may be exchanged. All runs of an example are swapped together, since they
    are about the same example: the test is over test examples, given the trained models.
    """
    rng = np.random.default_rng(0)
    change = second - first
    sums = first.sum(axis=1), second.sum(axis=1)
    observed = abs(_mean(metric, sums[0]) - _mean(metric, sums[1]))
    as_large = 0
    for draws in _chunks(RANDOMISATION_DRAWS, first.shape[1]):
        swapped = rng.integers(0, 2, (draws, first.shape[1]), np.int8).astype(np.float64)
        moved = np.einsum("re,kes->rks", swapped, change, optimize=True)
        difference = _mean(metric, sums[0] + moved) - _mean(metric, sums[1] - moved)
        as_large += int(np.sum(np.abs(difference) >= observed - 1e-12))
    return (as_large + 1) / (RANDOMISATION_DRAWS + 1)


def _mean(metric: str, sums: np.ndarray) -> np.ndarray:
    return score_of(metric, sums).mean(axis=-1)


def _scores(metric: str, examples: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """[draws, k]: each run's score on each drawn set of examples."""
    return score_of(metric, np.einsum("re,kes->rks", examples, runs, optimize=True))


def _counts(rng: np.random.Generator, draws: int, size: int) -> np.ndarray:
    """[draws, size]: how often each of `size` was taken in `size` drawings with replacement."""
    taken = rng.integers(0, size, (draws, size)) + size * np.arange(draws)[:, None]
    return np.bincount(taken.ravel(), minlength=draws * size).reshape(draws, size).astype(float)


def _chunks(draws: int, width: int) -> Iterator[int]:
    most = max(1, _CHUNK_ELEMENTS // max(width, 1))
    for start in range(0, draws, most):
        yield min(most, draws - start)


def _percentiles(values: np.ndarray, level: float) -> Interval:
    low, high = np.percentile(values, [50 * (1 - level), 50 * (1 + level)])
    return Interval(float(low), float(high))
