"""How the numbers were made, in sentences for the report."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from attention.comparison.comparing import Comparison
from attention.comparison.resampling import BOOTSTRAP_DRAWS, RANDOMISATION_DRAWS
from attention.comparison.rows import Row
from attention.comparison.testing import LEVEL


def _whose_scores(rows: Sequence[Row]) -> list[str]:
    if all(row.checkpoint == "best" for row in rows):
        return []
    return [
        "Averages. Each run is scored, on dev and test, with the mean of the parameters of its "
        "last checkpoints (average_checkpoints), in place of its best checkpoint."
    ]


def lines(comparison: Comparison) -> list[str]:
    """A paragraph for each method that the comparison used."""
    rows = [chosen.row for chosen in comparison.chosen]
    found = [
        "Choice. A row is one variant in one setting. Where its runs differ in tuned keys "
        "(learning rate, dropout, batch size, …), the setting with the best mean dev score is "
        "shown, among those with the most seeds. Rows are in order of the dev score. Test scores "
        "choose nothing.",
        *_whose_scores(rows),
        "Spread. ± is the standard deviation over seeds, divided by n − 1: how much one more "
        "run would differ, not how sure the mean is.",
    ]
    if any(row.ci_method for row in rows):
        ways = ", ".join(dict.fromkeys(row.ci_method for row in rows if row.ci_method))
        found.append(
            f"Interval. 95 % {ways}, {BOOTSTRAP_DRAWS:,} draws; seeds and examples are drawn "
            "independently, the same examples for all runs. Few seeds say little of how seeds "
            "spread, and a bootstrap takes them for all there are (of three it understates their "
            "part by a fifth or more). table.csv and table.json also have Student's interval "
            "(t_low, t_high), which allows for that, and knows nothing of the test examples."
        )
    if any(row.test for row in rows):
        found.append(
            "p over seeds. A two-sided paired t-test of the difference to the baseline over "
            "common seeds (Welch's test where fewer than two are common). It takes differences "
            "over seeds as normal, which few seeds cannot show. The exact sign-flip permutation "
            "test (p_permutation) assumes less, but cannot give less than 2^(1−n): 0.25 for 3 "
            "seeds, 0.0625 for 5; significance of a single comparison at 5 % takes 6."
        )
    if any(row.p_examples is not None for row in rows):
        found.append(
            "p over examples. Approximate randomisation over test examples, "
            f"{RANDOMISATION_DRAWS:,} draws: outputs of whole examples (sentences, since words of "
            "one are dependent) are swapped between the two systems, all seeds of an example "
            "together, and the corpus score is computed anew from summed statistics. "
            "It says whether these trained models "
            "differ beyond this choice of test examples, not whether another seed would."
        )
    if any(row.p_mcnemar for row in rows):
        found.append(
            "McNemar's mid-p for each pair of runs with the same seed (p_mcnemar) is in "
            "table.json, not corrected."
        )
    if any(row.verdict for row in rows):
        found.append(
            f"Verdict. A row is better or worse where the p over seeds and, where there is one, "
            f"the p over examples are below {LEVEL:g}, each after Holm's correction over all "
            "comparisons of this report. Else the two are not distinguishable with these runs, "
            "which does not mean that they are equal."
        )
    found.append(
        "Costs. Means over the runs of a row, of times, speeds and memory their medians: one run "
        "that had to wait counts no more than others. Times hold for the machine and what else it "
        "was doing. FLOPs are those of all training steps, counted in the step's program: forward, "
        "backward with what it computes again, and the update; attention and padding are in them. "
        "Memory is the most in use during a run, of the fullest device where devices keep count, "
        "else of the whole process with what it held before (data, programs, what earlier trials "
        "left). A run that stayed below what its process had used before has none, where that "
        "cannot be told apart. Compilation is the most of any trial; with programs in the cache on "
        "disk it is short, so it compares mechanisms only where the cache was empty for all."
    )
    if any(row.runs_at_once != "1" for row in rows):
        found.append(
            "Runs at once. Of runs that one program trained at once, time and memory are those of "
            "all of them, tokens/s those of one in that time."
        )
    if comparison.signatures:
        found.append(f"BLEU. sacreBLEU on detokenised text: {'; '.join(comparison.signatures)}")
    software: dict[str, None] = {}
    for chosen in comparison.chosen:
        for run in chosen.setting.runs.values():
            versions = run.result.get("versions") or {}
            software[", ".join(f"{name} {number}" for name, number in versions.items())] = None
    found.append(f"Software of the runs: {'; '.join(filter(None, software)) or 'not known'}.")
    packages = ", ".join(f"{name} {version(name)}" for name in ("scipy", "numpy", "sacrebleu"))
    found.append(f"Software of the comparison: {packages}.")
    return found
