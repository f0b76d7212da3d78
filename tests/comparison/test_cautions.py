"""What limits the conclusions of a comparison is said, once and with the rows it is about."""

from __future__ import annotations

import pytest
from support.fake_runs import write_run

from attention.comparison.comparing import Options, compare

pytestmark = pytest.mark.fast


def cautions_of(folder) -> str:
    return "\n".join(compare([str(folder)], Options()).cautions)


def test_unequal_budgets_devices_and_effort_are_said(tmp_path):
    write_run(tmp_path / "a", seed=0)
    costs = {"num_params": 1030, "device_kind": "TPU v5e", "versions": {"jax": "0.10.2"}}
    write_run(tmp_path / "b", variant="cnn", result=costs)
    write_run(tmp_path / "c", variant="cnn", optimizer__learning_rate=9.0, dev=0.1)
    text = "\n".join(compare([str(tmp_path)], Options()).cautions)
    assert "parameters differ by up to 3 % (scaled_dot 1,000, cnn 1,030)" in text
    assert "runs are on different devices (" in text and "steps differ" not in text
    assert "different versions of jax: 0.10.2, 0.12.0" in text
    assert "settings tried are scaled_dot 1, cnn 2" in text or "cnn 2, scaled_dot 1" in text
    write_run(tmp_path / "b", variant="cnn", result={"num_params": 1019})
    assert "differ by" not in "\n".join(compare([str(tmp_path)], Options()).cautions)


def test_other_training_data_part_the_panels_or_are_said(tmp_path):
    write_run(tmp_path / "a", data__train_examples=64, result={"data_hash": "few"})
    write_run(tmp_path / "b", variant="cnn", result={"data_hash": "all"})
    assert len(compare([str(tmp_path)], Options()).panels()) == 2
    write_run(tmp_path / "c", variant="rnn", result={"data_hash": "few"})
    found = compare([str(tmp_path / "b"), str(tmp_path / "c")], Options())
    assert "trained on different data (data_hash): cnn on all; rnn on few" in found.cautions[0]


def test_the_best_at_an_end_of_what_was_tried_is_said(tmp_path):
    for number, (rate, dev) in enumerate(((1e-3, 0.7), (2e-3, 0.8), (4e-3, 0.75))):
        write_run(tmp_path / str(number), optimizer__learning_rate=rate, dev=dev)
    assert "may lie beyond" not in cautions_of(tmp_path)
    write_run(tmp_path / "3", optimizer__learning_rate=8e-3, dev=0.9)
    assert (
        "the best optimizer.learning_rate is the highest that was tried, and a better one may lie "
        "beyond: scaled_dot" in cautions_of(tmp_path)
    )


def test_a_score_still_rising_at_the_end_is_said(tmp_path):
    write_run(tmp_path / "a", seed=0, result={"step": 100, "best_step": 100})
    assert "still best at the last step" in cautions_of(tmp_path)
    write_run(tmp_path / "b", seed=1, result={"step": 100, "best_step": 80})
    assert "still best at the last step" not in cautions_of(tmp_path)


def test_a_line_about_several_panels_comes_once(tmp_path):
    for size in (10, 20, 30):
        write_run(tmp_path / f"a{size}", data__train_examples=size)
        params = {"num_params": 1000 if size == 20 else 2000}
        write_run(tmp_path / f"b{size}", variant="cnn", data__train_examples=size, result=params)
    found = compare([str(tmp_path)], Options()).cautions
    assert len(found) == len(set(found))
    assert [line for line in found if "one seed only" in line] == [
        "everywhere: one seed only for scaled_dot, cnn: the spread over seeds is not known, so "
        "there is no interval and no test over seeds"
    ]
    (line,) = [line for line in found if "parameters differ" in line]
    assert line.startswith("train_examples=10; train_examples=30: parameters differ by up to 100 %")


def test_which_rows_are_meant_is_said(tmp_path):
    for number in range(6):
        write_run(tmp_path / str(number), variant=f"v{number}",
                  result={"best_step": 30 if number else 20})  # fmt: skip
    assert "not yet at their best: v1, v2, v3, v4, v5" in cautions_of(tmp_path)
    write_run(tmp_path / "0", variant="v0")
    assert "not yet at their best: all 6 rows" in cautions_of(tmp_path)
