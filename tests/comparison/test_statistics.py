"""Statistics over seeds and over examples, against hand-computed cases, SciPy and sacreBLEU."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from scipy import stats

from attention.comparison import resampling
from attention.comparison.examples import bleu_statistics, score_of
from attention.comparison.statistics import (
    compare_seeds,
    holm,
    mcnemar,
    paired_t_test,
    sign_flip_test,
    standard_deviation,
    t_interval,
)

pytestmark = pytest.mark.fast


def test_the_standard_deviation_is_that_of_a_sample():
    assert standard_deviation([1.0, 2.0, 4.0]) == pytest.approx(math.sqrt(7 / 3))
    assert standard_deviation([1.0]) is None


def test_student_interval_by_hand():
    # mean 2, sd 1, n 3: the quantile of t with 2 degrees of freedom is 4.302653.
    low, high = t_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-6)
    assert t_interval([1.0]) is None


def test_the_paired_t_test_by_hand_and_by_scipy():
    a, b = [0.9, 0.8, 0.85, 0.7], [0.8, 0.75, 0.8, 0.68]
    differences = np.subtract(a, b)
    t = differences.mean() / (differences.std(ddof=1) / 2)
    by_hand = 2 * stats.t.sf(t, 3)
    assert paired_t_test(differences) == pytest.approx(by_hand)
    assert paired_t_test(differences) == pytest.approx(stats.ttest_rel(a, b).pvalue)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_the_sign_flip_test_is_scipys_exact_permutation_test(n):
    rng = np.random.default_rng(n)
    differences = rng.normal(0.5, 1, n)
    expected = stats.permutation_test(
        (differences, np.zeros(n)), lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples", vectorized=True, n_resamples=np.inf,
    ).pvalue  # fmt: skip
    assert sign_flip_test(differences) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "least"), [(2, 0.5), (3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_few_seeds_cannot_give_a_small_permutation_p(n, least):
    assert sign_flip_test(np.arange(1.0, n + 1)) == least


def test_many_seeds_are_drawn_and_near_the_exact_p():
    differences = np.random.default_rng(1).normal(0.3, 1, 16)
    signs = 1 - 2 * ((np.arange(2**16)[:, None] >> np.arange(16)) & 1)
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert sign_flip_test(differences) == pytest.approx(exact, abs=0.015)


def test_seeds_are_paired_by_their_names():
    found = compare_seeds({"0": 3.0, "1": 5.0, "9": 100.0}, {"1": 4.0, "0": 1.0, "7": -50.0})
    assert found.difference == 1.5 and found.num_pairs == 2 and found.name == "paired t"
    assert found.p == pytest.approx(stats.ttest_1samp([2.0, 1.0], 0).pvalue)
    assert found.p_permutation == 0.5


def test_seeds_in_common_decide_whether_there_are_pairs():
    a, b = {"0": 1.0, "1": 2.0, "2": 4.0}, {"5": 0.0, "6": 1.5}
    found = compare_seeds(a, b)
    expected = stats.ttest_ind([1.0, 2.0, 4.0], [0.0, 1.5], equal_var=False)
    assert found.p == pytest.approx(expected.pvalue) and found.p_permutation is None
    assert found.num_pairs == 0 and "Welch" in found.name
    assert compare_seeds({"0": 1.0}, {"0": 2.0, "1": 3.0}) is None


@pytest.mark.parametrize("seeds", ["012", "567"])  # paired, and not
def test_the_least_significant_difference_has_a_p_of_the_level(seeds):
    scores = dict(zip("012", (0.70, 0.74, 0.79), strict=True))
    others = dict(zip(seeds, (0.71, 0.70, 0.72), strict=True))
    found = compare_seeds(scores, others)
    least = found.least_significant(0.01)
    shift = least - found.difference
    moved = {seed: score + shift for seed, score in scores.items()}
    assert compare_seeds(moved, others).p == pytest.approx(0.01)
    assert (
        compare_seeds(scores, {k: v - 0.5 for k, v in scores.items()}).least_significant(0.01)
        is None
    )  # without spread there is no t


@pytest.mark.parametrize(("shift", "p"), [(0.0, 1.0), (0.1, 0.25)])
def test_differences_without_spread_are_tested_by_sign_flips(shift, p):
    # All equal: t would be 0/0 for none and infinite for any, whose p is 0.
    base = {"0": 0.7, "1": 0.8, "2": 0.9}
    found = compare_seeds({seed: value + shift for seed, value in base.items()}, base)
    assert found.p == p and found.name == "sign-flip permutation"


@pytest.mark.parametrize(("b", "c"), [(9, 1), (1, 9), (3, 12), (5, 5), (0, 0), (0, 1)])
def test_mcnemars_mid_p_from_the_exact_binomial_test(b, c):
    n = b + c
    exact = stats.binomtest(min(b, c), n, 0.5).pvalue if n else 1.0
    expected = exact - math.comb(n, min(b, c)) * 0.5**n if b != c else 1.0
    assert mcnemar(b, c) == pytest.approx(expected)


def test_holm_by_hand():
    # Sorted 0.01·4, 0.02·3, 0.03·2, 0.5·1, and none below the one before it.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, None, 0.8]) == [1.0, None, 1.0]
    assert holm([0.04, None]) == [0.04, None]
    assert holm([]) == []
    assert holm([0.02, 0.02, 0.05, 0.05]) == pytest.approx([0.08, 0.08, 0.1, 0.1])  # ties


def accuracy_runs(hits, sizes):
    """[k e 2] of hits [k e] and words [e]."""
    hits = np.asarray(hits, float)
    return np.stack([hits, np.broadcast_to(np.asarray(sizes, float), hits.shape)], axis=-1)


def test_the_bootstrap_over_examples_is_scipys():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 20, 150)
    hits = rng.binomial(sizes, 0.8)
    low, high = resampling.bootstrap("accuracy", accuracy_runs([hits], sizes))
    expected = stats.bootstrap(
        (hits, sizes), lambda h, s, axis: h.sum(axis) / s.sum(axis), paired=True,
        vectorized=True, method="percentile", n_resamples=5000, rng=1,
    ).confidence_interval  # fmt: skip
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.002)


def test_the_bootstrap_over_seeds_is_scipys():
    values = [0.80, 0.84, 0.81, 0.89, 0.86]
    low, high = resampling.bootstrap_seeds(values)
    expected = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=1
    ).confidence_interval
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.002)
    assert resampling.bootstrap_seeds([0.8]) is None


def test_seeds_and_examples_both_widen_the_interval():
    rng = np.random.default_rng(0)
    sizes = np.full(100, 10)
    # Three runs that differ much, on examples that differ little, and the other way round.
    between_runs = accuracy_runs([np.full(100, h) for h in (5, 7, 9)], sizes)
    low, high = resampling.bootstrap("accuracy", between_runs)
    assert (low, high) == (0.5, 0.9)
    same = rng.integers(0, 11, 100)
    low, high = resampling.bootstrap("accuracy", accuracy_runs([same] * 3, sizes))
    one_low, one_high = resampling.bootstrap("accuracy", accuracy_runs([same], sizes))
    # The same examples for all runs: three equal runs are not three test sets.
    assert high - low == pytest.approx(one_high - one_low, rel=0.1)


def test_the_interval_of_a_difference_pairs_seeds_and_examples():
    rng = np.random.default_rng(0)
    sizes = np.full(80, 10)
    hits = rng.integers(0, 10, (3, 80))
    a, b = accuracy_runs(hits + 1, sizes), accuracy_runs(hits, sizes)
    assert resampling.bootstrap("accuracy", a, b) == pytest.approx((0.1, 0.1))


@pytest.mark.parametrize("gain", [0, 4])
def test_approximate_randomisation_is_scipys_permutation_test(gain):
    rng = np.random.default_rng(3)
    sizes = rng.integers(3, 12, 60)
    a = np.minimum(rng.binomial(sizes, 0.7) + rng.binomial(gain, 0.1, 60), sizes)
    b = rng.binomial(sizes, 0.7)
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).sum(axis) / sizes.sum(),
        permutation_type="samples", vectorized=True, n_resamples=20_000, rng=5,
    ).pvalue  # fmt: skip
    found = resampling.approximate_randomisation(
        "accuracy", accuracy_runs([a], sizes), accuracy_runs([b], sizes)
    )
    assert found == pytest.approx(expected, abs=0.015)


def test_the_least_p_is_that_of_the_observed_assignment_alone():
    a, b = accuracy_runs([[1] * 60], [1] * 60), accuracy_runs([[0] * 60], [1] * 60)
    assert resampling.approximate_randomisation("accuracy", a, b) == 1 / 10_000


def test_equal_systems_are_never_different():
    runs = accuracy_runs([[1, 0, 1]], [1, 1, 1])
    assert resampling.approximate_randomisation("accuracy", runs, runs) == 1.0


def test_all_seeds_of_an_example_are_swapped_together():
    # One example decides: were its three runs swapped apart, p would be about a quarter.
    a, b = accuracy_runs([[1], [1], [1]], [1]), accuracy_runs([[0], [0], [0]], [1])
    assert resampling.approximate_randomisation("accuracy", a, b) == 1.0


def sentences(count: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    words = ("the", "dog", "cat", "sees", "a", "Bird", "now", ".")
    return [" ".join(generator.choices(words, k=generator.randint(1, 9))) for _ in range(count)]


@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_of_summed_statistics_is_sacrebleus(lowercase):
    hypotheses, references = sentences(40, 0), sentences(40, 1)
    found = bleu_statistics(hypotheses, references, lowercase=lowercase)
    for part in (slice(None), slice(0, 7), slice(5, 6)):
        expected = BLEU(lowercase=lowercase).corpus_score(hypotheses[part], [references[part]])
        assert score_of("bleu", found[part].sum(axis=0)) == pytest.approx(expected.score)


def test_bleu_smooths_as_sacrebleu_and_is_zero_without_a_match():
    cases = [("a b c d e", "a x c y e"), ("a b", "a b"), ("", "a"), ("x y z w", "a b c d")]
    for hypothesis, reference in cases:
        sums = bleu_statistics([hypothesis], [reference])[0]
        expected = BLEU().corpus_score([hypothesis], [[reference]]).score
        assert score_of("bleu", sums) == pytest.approx(expected), hypothesis


def test_bleu_of_perfect_hypotheses_is_100():
    lines = [line + " one two three ." for line in sentences(5, 2)]
    assert score_of("bleu", bleu_statistics(lines, lines).sum(axis=0)) == pytest.approx(100)


def test_randomisation_of_bleu_agrees_with_sacrebleus():
    from sacrebleu.significance import PairedTest

    references = [line + " one two three ." for line in sentences(60, 4)]
    better = [r if i % 3 else r.replace("one", "two") for i, r in enumerate(references)]
    worse = [r if i % 5 else r.replace("one two", "two two") for i, r in enumerate(better)]
    named = [("base", worse), ("other", better)]
    theirs = PairedTest(named, {"BLEU": BLEU(references=[references])}, None, "ar", 5000)
    expected = theirs()[1]["BLEU"][1].p_value
    ours = resampling.approximate_randomisation(
        "bleu", bleu_statistics(better, references)[None], bleu_statistics(worse, references)[None]
    )
    assert ours == pytest.approx(expected, abs=0.02)
