"""Which differences count: tests over seeds and over examples, Holm's correction, the verdict."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from support.fake_runs import (
    rows_of,
    write_run,
    write_sentiment_run,
    write_tagging_run,
    write_translation_run,
)

from attention.comparison.comparing import Options, compare
from attention.comparison.statistics import mcnemar
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_paired_tests_and_holm_over_the_whole_report(tmp_path):
    scores = {
        "scaled_dot": (0.80, 0.82, 0.85, 0.81),
        "cnn": (0.86, 0.87, 0.90, 0.87),
        "rnn": (0.81, 0.80, 0.86, 0.83),
    }
    for variant, values in scores.items():
        for seed, value in enumerate(values):
            write_run(tmp_path / f"{variant}{seed}", variant=variant, seed=seed, test=value)
    rows = rows_of(tmp_path)
    p = {v: stats.ttest_rel(scores[v], scores["scaled_dot"]).pvalue for v in ("cnn", "rnn")}
    for variant, value in p.items():
        assert rows[variant].p_value == pytest.approx(value)
        assert rows[variant].test == "paired t" and rows[variant].n_pairs == 4
    assert rows["cnn"].p_permutation == 0.125
    assert rows["cnn"].p_holm == pytest.approx(2 * p["cnn"])
    assert rows["rnn"].p_holm == pytest.approx(p["rnn"])
    assert rows["cnn"].verdict == "better" and rows["rnn"].verdict == "not distinguishable"
    # One of two is rejected, so that the other's step is at 0.05; it would itself be at 0.025.
    differences = np.subtract(scores["rnn"], scores["scaled_dot"])
    needed = stats.t.isf(0.025, 3) * stats.sem(differences)
    assert rows["rnn"].least_significant == pytest.approx(needed)
    clear = np.subtract(scores["cnn"], scores["scaled_dot"])
    least = stats.t.isf(0.0125, 3) * stats.sem(clear)
    assert rows["cnn"].least_significant == pytest.approx(least) and least < clear.mean()
    (line,) = [x for x in compare([str(tmp_path)], Options()).cautions if "is not equal" in x]
    assert "2 comparisons" in line and f"about {100 * needed:.2f} in accuracy (%)" in line
    base = rows["scaled_dot"]
    assert (
        base.least_significant is None
        and base.baseline == "scaled_dot"
        and base.p_value is base.verdict is None
    )
    other = rows_of(tmp_path, baseline="cnn")
    assert other["scaled_dot"].verdict == "worse" and other["scaled_dot"].baseline == "cnn"
    with pytest.raises(UserError, match=r"--baseline=cmn.*did you mean 'cnn'"):
        rows_of(tmp_path, baseline="cmn")


def test_of_losses_the_lower_is_better(tmp_path):
    for variant, losses in (("scaled_dot", (1.0, 1.1, 1.2)), ("cnn", (0.5, 0.61, 0.7))):
        for seed, loss in enumerate(losses):
            write_run(tmp_path / f"{variant}{seed}", variant=variant, seed=seed, dev=0.9,
                      result={"test": {"accuracy": 0.9, "loss": loss}})  # fmt: skip
    rows = rows_of(tmp_path, metric="loss")
    assert "is not equal" not in "".join(compare([str(tmp_path)], Options(metric="loss")).cautions)
    assert rows["cnn"].mean == pytest.approx(0.60333, abs=1e-5)
    assert rows["cnn"].verdict == "better"
    with pytest.raises(UserError, match=r"--metric=los: no run has it \(did you mean 'loss'\?\)"):
        rows_of(tmp_path, metric="los")


def tagged(rng, count, right):
    return [[int(rng.random() < right) for _ in range(rng.integers(1, 9))] for _ in range(count)]


def test_runs_scored_on_other_sentences_share_no_examples(tmp_path):
    write_tagging_run(tmp_path / "a", [[1, 0]] * 20)
    write_tagging_run(tmp_path / "b", [[1, 1]] * 19, variant="cnn")
    assert all(row.p_examples is None for row in rows_of(tmp_path).values())


def test_seeds_scored_on_other_sentences_have_no_draws_of_examples(tmp_path):
    for seed, (harm, kind) in enumerate((([1, 0], "w"), ([1, 1], "v"))):
        run = write_tagging_run(tmp_path / f"{seed}", [harm] * 20, seed=seed)
        for path in (run / "eval").glob("*.txt"):
            path.write_text(path.read_text().replace("w", kind))
    (row,) = rows_of(tmp_path).values()
    assert row.n_seeds == 2 and row.ci_method == "percentile bootstrap over seeds"


def test_tests_over_examples_need_both_kinds_of_evidence(tmp_path):
    rng = np.random.default_rng(0)
    base = tagged(rng, 60, 0.8)
    for seed in range(3):
        runs = {"scaled_dot": base, "cnn": [list(s) for s in base]}
        for place in range(2 + (seed == 1)):
            runs["cnn"][place] = [1] * len(base[place])
        for variant, sentences in runs.items():
            write_tagging_run(tmp_path / f"{variant}{seed}", sentences, seed=seed,
                              variant=variant, dev=0.9)  # fmt: skip
    row = rows_of(tmp_path)["cnn"]
    assert row.difference > 0 and row.p_holm < 0.05 < row.p_examples
    # It is not the seeds that leave it open.
    assert not [x for x in compare([str(tmp_path)], Options()).cautions if "is not equal" in x]
    assert row.verdict == "not distinguishable"
    assert row.ci_method == "percentile bootstrap over seeds and test examples"
    assert row.difference_low <= row.difference <= row.difference_high


def test_sentences_are_swapped_whole(tmp_path):
    # One long sentence makes the whole difference: forty words, but one example.
    base = [[1, 0]] * 5
    write_tagging_run(tmp_path / "a", [*base, [0] * 40])
    write_tagging_run(tmp_path / "b", [*base, [1] * 40], variant="cnn")
    assert rows_of(tmp_path)["cnn"].p_examples == 1.0


def test_mcnemar_for_texts_with_one_label_each(tmp_path):
    gold = "p" * 30
    write_sentiment_run(tmp_path / "a", "p" * 20 + "n" * 10, gold)
    write_sentiment_run(tmp_path / "b", "n" + "p" * 28 + "n", gold, variant="cnn")
    row = rows_of(tmp_path)["cnn"]
    assert row.p_mcnemar == {"0": pytest.approx(mcnemar(9, 1))}
    assert row.p_examples == pytest.approx(2 * 11 / 2**10, abs=0.01)


def test_bleu_is_tested_over_sentences_and_its_signature_kept(tmp_path):
    references = [f"the dog number {i} sees a cat near the house ." for i in range(40)]
    worse = [r.replace("sees a", "sees the") if i % 2 else r for i, r in enumerate(references)]
    write_translation_run(tmp_path / "a", worse, references)
    write_translation_run(tmp_path / "b", references, references, variant="cnn")
    found = compare([str(tmp_path)], Options())
    row = next(chosen.row for chosen in found.chosen if chosen.row.variant == "cnn")
    assert row.mean == pytest.approx(100) and row.p_examples < 0.001
    (signature,) = found.signatures
    assert all(part in signature for part in ("nrefs:1", "tok:13a", "smooth:exp", "version:"))
