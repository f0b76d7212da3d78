"""What makes a row, which setting it shows, what is tested, and what is refused."""

from __future__ import annotations

import pytest
from support.fake_runs import (
    rows_of,
    write_run,
    write_sweep,
    write_tagging_run,
)

from attention.comparison.answer import answer
from attention.comparison.comparing import Options, compare
from attention.comparison.grouping import Keys
from attention.comparison.statistics import holm
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_runs_that_differ_in_the_seed_alone_are_one_row(tmp_path):
    for seed, test in enumerate((0.90, 0.92, 0.97)):
        write_run(
            tmp_path / str(seed), seed=seed, test=test, log_every_steps=seed + 1,
            model__attention__implementation=f"i{seed}", result={"train_seconds": 10.0 + seed},
        )  # fmt: skip
    (row,) = rows_of(tmp_path).values()
    assert row.n_seeds == 3 and row.n_trials == 3 and row.n_settings == 1
    assert row.mean == pytest.approx(0.93) and row.sd == pytest.approx(0.0360555)
    assert row.split == "test" and row.metric == "accuracy" and row.train_seconds == 11.0
    # Each seed thrice has probability 1/27, above 1/40: with three seeds the ends are the extremes.
    assert (row.ci_low, row.ci_high) == pytest.approx((0.90, 0.97))
    assert row.ci_method == "percentile bootstrap over seeds"
    assert len(row.workdirs) == 3 and row.num_params == 1000


@pytest.mark.parametrize(("known", "expected"), [((7, None, 9), 8), ((None, None, None), None)])
def test_memory_is_that_of_the_runs_that_know_it(tmp_path, known, expected):
    for seed, memory in enumerate(known):
        write_run(tmp_path / str(seed), seed=seed, result={"peak_memory_bytes": memory})
    (row,) = rows_of(tmp_path).values()
    assert row.peak_memory_bytes == expected and row.n_seeds == 3


def test_one_seed_has_no_spread_no_interval_and_no_p(tmp_path):
    write_tagging_run(tmp_path / "a", [[1, 0]] * 20)
    write_tagging_run(tmp_path / "b", [[1, 1]] * 20, variant="cnn")
    rows = rows_of(tmp_path)
    for row in rows.values():
        assert row.sd is row.ci_low is row.ci_high is row.p_value is row.p_holm is None
        assert row.verdict is None
    # What single runs allow is there under names of its own.
    assert rows["cnn"].p_examples < 0.01 and rows["scaled_dot"].examples_low is not None


def test_the_same_seed_again_is_not_another_seed(tmp_path):
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=0)
    found = compare([str(tmp_path)], Options())
    assert found.chosen[0].row.n_seeds == 1
    ((run, why),) = found.rejected
    assert run.path.name == "b" and why == f"it repeats seed 0 of {tmp_path}/a"


def test_an_order_seed_is_part_of_the_seed(tmp_path):
    for order in (1, 2):
        write_run(tmp_path / str(order), seed=0, data__order_seed=order)
    (row,) = rows_of(tmp_path).values()
    assert row.n_seeds == 2


def test_the_setting_is_chosen_on_dev_though_test_says_otherwise(tmp_path):
    for rate, dev, test in ((0.1, 0.8, 0.99), (0.2, 0.9, 0.70), (0.3, 0.85, 0.95)):
        for seed in (0, 1):
            write_run(tmp_path / f"{rate}-{seed}", seed=seed, dev=dev, test=test,
                      optimizer__learning_rate=rate)  # fmt: skip
    (row,) = rows_of(tmp_path).values()
    assert row.mean == 0.70 and row.tuned == "learning_rate=0.2" and row.dev_mean == 0.9
    assert row.n_seeds == 2 and row.n_settings == 3 and row.n_trials == 6


def test_of_settings_that_are_level_on_dev_the_first_is_taken(tmp_path):
    for name, rate, test in (("a", 0.2, 0.6), ("b", 0.1, 0.9), ("c", 0.3, 0.7)):
        write_run(tmp_path / name, dev=0.8, test=test, optimizer__learning_rate=rate)
    (row,) = rows_of(tmp_path).values()
    assert row.tuned == "learning_rate=0.2" and row.mean == 0.6


def test_a_lucky_seed_is_not_chosen_before_settings_with_all_seeds(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path / f"whole-{seed}", seed=seed, dev=0.8)
    write_run(tmp_path / "lucky", seed=0, dev=0.9, optimizer__learning_rate=0.5)
    write_run(tmp_path / "pruned", seed=1, status="pruned", optimizer__learning_rate=0.5)
    (row,) = rows_of(tmp_path).values()
    assert row.n_seeds == 3 and row.dev_mean == pytest.approx(0.8) and row.n_trials == 5


def test_what_is_not_tuned_has_rows_of_its_own(tmp_path):
    for window in (4, 8):
        write_run(tmp_path / str(window), variant="sliding_window",
                  model__attention__window=window, model__attention__blocks=[[1, 2]])  # fmt: skip
    assert list(rows_of(tmp_path)) == ["sliding_window (window=4)", "sliding_window (window=8)"]
    rows = rows_of(tmp_path, keys=Keys(tuned=("model.attention",)))
    assert list(rows) == ["sliding_window"]
    for rate in (0.1, 0.2):
        write_run(tmp_path / f"r{rate}", optimizer__learning_rate=rate)
    keys = Keys(rows_by=("optimizer.learning_rate",))
    assert "scaled_dot (learning_rate=0.1)" in rows_of(tmp_path, keys=keys)
    with pytest.raises(UserError, match=r"--tuned=optimiser: no run has such a config key"):
        rows_of(tmp_path, keys=Keys(tuned=("optimiser",)))


def test_a_key_that_variants_share_makes_panels_each_with_its_baseline(tmp_path):
    for variant, lift in (("scaled_dot", 0.0), ("cnn", 0.1)):
        for size in (100, 1000):
            for seed in (0, 1):
                write_run(tmp_path / f"{variant}-{size}-{seed}", variant=variant, seed=seed,
                          data__train_examples=size,
                          test=0.5 + size / 10_000 + lift + seed / 100 * (1 + lift))  # fmt: skip
    found = compare([str(tmp_path)], Options())
    assert len(found.panels()) == 2
    for members in found.panels().values():
        by_name = {chosen.row.name: chosen.row for chosen in members}
        assert by_name["cnn"].baseline == "scaled_dot" == by_name["scaled_dot"].baseline
        assert by_name["cnn"].difference == pytest.approx(0.1005)
        assert by_name["cnn"].panel.startswith("train_examples=")
    tested = [chosen.row for chosen in found.chosen if chosen.row.p_value is not None]
    # One correction for the whole report, not one for each panel.
    assert [row.p_holm for row in tested] == holm([row.p_value for row in tested])
    assert len(tested) == 2 and all(row.p_holm > row.p_value for row in tested)


def test_widths_solved_for_a_budget_do_not_part_the_variants(tmp_path):
    for variant, widths in (("scaled_dot", (16, 32)), ("cnn", (15, 30))):
        for dim in widths:
            write_run(tmp_path / f"{variant}-{dim}", variant=variant, model__dim=dim, dev=dim / 99)
    found = compare([str(tmp_path)], Options())
    assert len(found.panels()) == 1 and found.chosen[0].row.name == "scaled_dot (dim=32)"
    assert any("2 rows are of the baseline" in line for line in found.cautions)
    assert {chosen.row.baseline for chosen in found.chosen} == {"scaled_dot (dim=32)"}


def test_options_of_variants_label_rows_and_make_no_panels(tmp_path):
    write_run(tmp_path / "base")
    for variant in ("sliding_window", "longformer"):
        for window in (4, 8):
            write_run(tmp_path / f"{variant}{window}", variant=variant,
                      model__attention__window=window)  # fmt: skip
    found = compare([str(tmp_path)], Options())
    assert len(found.panels()) == 1
    assert {chosen.row.baseline for chosen in found.chosen} == {"scaled_dot"}
    assert "longformer (window=8)" in [chosen.row.name for chosen in found.chosen]


def test_mixed_data_is_refused_with_the_runs_named(tmp_path):
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=1, result={"data_hash": "other"})
    with pytest.raises(UserError, match=r"different data_hash.*/a\).*other.*/b\).*--allow_mixed"):
        compare([str(tmp_path)], Options())
    found = compare([str(tmp_path)], Options(allow_mixed=True))
    assert found.chosen[0].row.n_seeds == 2 and "mixed by --allow_mixed" in found.cautions[0]


def test_scores_on_other_test_data_are_refused_across_variants(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", variant="cnn", result={"eval_hash": "other"})
    with pytest.raises(UserError, match="different eval_hash"):
        compare([str(tmp_path)], Options())
    # Another data set is another block; a run that does not count mixes nothing.
    write_run(tmp_path / "b", variant="cnn", dataset="more", result={"eval_hash": "other"})
    write_run(tmp_path / "c", status="failed", result={"eval_hash": "third"})
    assert len(compare([str(tmp_path)], Options()).panels()) == 2


def test_a_file_in_another_folder_is_the_same_data(tmp_path):
    for seed, folder in enumerate(("/one", "/two")):
        write_run(tmp_path / str(seed), seed=seed, data__train_path=f"{folder}/train.conllu")
    (row,) = rows_of(tmp_path).values()
    assert row.n_seeds == 2


def test_what_does_not_count_is_listed_and_a_crash_does_not_hide_the_rest(tmp_path):
    write_sweep(
        tmp_path / "sweep",
        [
            {"seed": 0}, {"seed": 1}, {"seed": 2},
            {"seed": 3, "status": "failed", "run": False},
            {"seed": 4, "status": "diverged"},
            {"seed": 5, "status": "running"},
        ],
    )  # fmt: skip
    write_run(tmp_path / "nan", seed=6, result={"eval": {"accuracy": None}})
    found = compare([str(tmp_path)], Options())
    assert found.chosen[0].row.n_seeds == 3 and found.chosen[0].row.n_trials == 6
    assert len(found.runs) == 7
    assert {run.status: why for run, why in found.rejected} == {
        "failed": "the sweep lists it, but it has no run directory",
        "diverged": "the sweep says diverged",
        "running": "it has not finished, or was killed",
        "complete": "its dev accuracy is no number",
    }


def test_unfinished_runs_count_by_dev_when_asked(tmp_path):
    write_run(tmp_path / "a", status="running", test=None, dev=0.7)
    with pytest.raises(UserError, match=r"none of 1 runs can be compared.*--include_running"):
        compare([str(tmp_path)], Options())
    (row,) = rows_of(tmp_path, include_running=True).values()
    assert (row.mean, row.split) == (0.7, "dev")


def test_unfinished_runs_on_test_are_refused(tmp_path):
    write_run(tmp_path / "a", test=0.9, dev=0.7)
    with pytest.raises(UserError, match=r"--include_running.*--split=test.*drop one"):
        compare([str(tmp_path)], Options(include_running=True, split="test"))
    (row,) = rows_of(tmp_path, include_running=True, split="dev").values()
    assert (row.mean, row.split) == (0.7, "dev")


def test_without_a_test_split_dev_is_compared(tmp_path):
    write_run(tmp_path / "a", test=None, dev=0.7)
    assert [(row.mean, row.split) for row in rows_of(tmp_path).values()] == [(0.7, "dev")]
    with pytest.raises(UserError, match="it has no test accuracy"):
        rows_of(tmp_path, split="test")


def test_a_search_over_other_keys_is_told_how_to_be_one_row(tmp_path):
    for number in range(5):
        write_run(tmp_path / str(number), model__dim=16 + number, dev=number / 10)
    found = compare([str(tmp_path)], Options())
    (line,) = [line for line in found.cautions if "--tuned" in line]
    assert line == "scaled_dot has 5 rows: --tuned=model.dim takes the one that is best on dev"
    assert any("one seed only for all 5 rows" in line for line in found.cautions)
    (row,) = rows_of(tmp_path, keys=Keys(tuned=("model.dim",))).values()
    assert row.tuned == "dim=20" and row.n_settings == 5


def test_the_answer_in_words(tmp_path):
    for variant, lift, noise in (("scaled_dot", 0, 0), ("cnn", 0.05, 0.001), ("rnn", 0.0, 0.02)):
        for seed in range(4):
            value = 0.8 + seed / 100 + lift + noise * (-1) ** seed
            write_run(tmp_path / f"{variant}{seed}", variant=variant, seed=seed, test=value,
                      dev=value)  # fmt: skip
    (members,) = compare([str(tmp_path)], Options()).panels().values()
    assert answer(members) == (
        "On made_up (tiny), cnn is best on dev (test accuracy 86.50 ± 1.24 %, 4 seeds). "
        "1 of 2 differs significantly from scaled_dot (better: cnn). "
        "Not distinguishable from scaled_dot: rnn."
    )
    for seed in range(4):
        (tmp_path / f"cnn{seed}" / "result.json").unlink()
    write_run(tmp_path / "dot", variant="dot")
    (members,) = compare([str(tmp_path)], Options()).panels().values()
    assert answer(members).endswith(
        "Of 1 tested, none differs significantly from scaled_dot. "
        "Not tested, for want of seeds: dot."
    )


def test_without_a_baseline_nothing_is_tested_and_that_is_said(tmp_path):
    for variant in ("cnn", "rnn"):
        for seed in (0, 1):
            write_run(tmp_path / f"{variant}{seed}", variant=variant, seed=seed)
    found = compare([str(tmp_path)], Options())
    assert all(chosen.row.baseline is None for chosen in found.chosen)
    assert any("no row is of the baseline scaled_dot" in line for line in found.cautions)


def test_pareto_rows_are_beaten_by_none_in_score_and_time(tmp_path):
    for variant, score, seconds in (("cnn", 0.9, 10), ("rnn", 0.8, 20), ("dot", 0.95, 30)):
        write_run(tmp_path / variant, variant=variant, test=score,
                  result={"train_seconds": seconds})  # fmt: skip
    assert {n: r.pareto_time for n, r in rows_of(tmp_path).items()} == {
        "cnn": True, "rnn": False, "dot": True,
    }  # fmt: skip


def test_a_run_that_had_to_wait_counts_no_more_than_others(tmp_path):
    for seed, (seconds, speed) in enumerate(((10.0, 90.0), (12.0, 80.0), (5000.0, 1.0))):
        costs = {"train_seconds": seconds, "tokens_per_second": speed, "flops": seconds}
        write_run(tmp_path / str(seed), seed=seed, result=costs)
    (row,) = rows_of(tmp_path).values()
    assert (row.train_seconds, row.tokens_per_second) == (12.0, 80.0)
    assert row.flops == pytest.approx(5022 / 3)


def test_compilation_is_that_of_the_trial_that_compiled(tmp_path):
    for number, (seconds, dev) in enumerate(((7.0, 0.5), (0.0, 0.9))):
        write_run(
            tmp_path / str(number), optimizer__learning_rate=float(number + 1), dev=dev,
            result={"compile_seconds": seconds},
        )  # fmt: skip
    (row,) = rows_of(tmp_path).values()
    assert row.tuned == "learning_rate=2" and row.compile_seconds == 7.0
