"""The training loop: what it writes, and that a broken run goes on bit for bit."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.runs import losses, metrics_rows, saved_arrays, small_config

from attention.errors import Failure, Interrupted, UserError
from attention.tools.evaluating import evaluate
from attention.training import loop


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run without a break."""
    folder = tmp_path_factory.mktemp("whole")
    result = loop.train(small_config(folder / "data"), str(folder / "run"))
    return folder / "run", result


def stop_at(monkeypatch, step: int) -> None:
    """Makes training behave as if a signal had come after this step."""
    take_step = loop.Trainer._take_step

    def take_and_stop(self):
        take_step(self)
        if self.step == step:
            self._interrupt.requested = "SIGTERM"

    monkeypatch.setattr(loop.Trainer, "_take_step", take_and_stop)


def test_a_run_directory_holds_what_it_should(whole_run):
    run, result = whole_run
    names = {entry.name for entry in run.iterdir() if not entry.name.startswith(".")}
    assert names == {
        *("config.json", "metrics.jsonl", "result.json", "checkpoints", "eval", "tokenizer"),
        *("tensorboard", "samples"),
    }
    assert result == json.loads((run / "result.json").read_text())
    assert result["status"] == "complete" and result["step"] == 12
    assert len(losses(run)) == 12
    assert {entry.name for entry in (run / "samples").iterdir()} == {"6.txt", "12.txt"}
    assert len((run / "samples" / "6.txt").read_text().splitlines()) == 8


@pytest.mark.fast
def test_result_has_every_key_of_the_public_surface(whole_run):
    _, result = whole_run
    keys = """status task dataset variant size seed step num_params flops best_step eval test
    num_eval_examples num_eval_tokens compile_seconds train_seconds steps_per_second
    tokens_per_second padding_fraction peak_memory_bytes model_flop_utilization device_kind
    num_devices num_processes dtype matmul_precision config_hash data_hash eval_hash versions"""
    assert set(keys.split()) <= set(result)
    assert list(result["eval"]) == ["accuracy", "loss"]
    assert result["num_eval_examples"] == 12


def test_predictions_are_one_line_a_sentence_in_file_order(whole_run):
    run, result = whole_run
    for split, count in (("dev", 12), ("test", 9)):
        path = run / "eval" / f"{split}-{result['best_step']}.predictions.txt"
        lines = path.read_text(encoding="utf-8").splitlines()
        config = json.loads((run / "config.json").read_text())
        key = {"dev": "eval_path", "test": "test_path"}[split]
        blocks = Path(config["data"][key]).read_text(encoding="utf-8").strip().split("\n\n")
        words = [[row.split("\t")[1] for row in block.split("\n")] for block in blocks]
        assert len(lines) == count
        assert [[w.rpartition("_")[0] for w in line.split()] for line in lines] == words


def test_the_evaluation_in_the_loop_is_that_of_eval(whole_run):
    run, _ = whole_run
    logged = next(r for r in metrics_rows(run) if r["step"] == 12 and "eval/loss" in r)
    for batch_size in (1, 3, 64):
        again = evaluate(str(run), split="dev", checkpoint="12", eval_batch_size=batch_size)
        assert again["accuracy"] == logged["eval/accuracy"]
        assert again["num_eval_tokens"] == logged["eval/num_eval_tokens"]
        np.testing.assert_allclose(again["loss"], logged["eval/loss"], atol=1e-6)


def test_the_same_command_again_says_already_complete(whole_run, caplog):
    run, result = whole_run
    before = (run / "metrics.jsonl").read_bytes()
    config = small_config(run.parent / "data")
    with caplog.at_level("INFO"):
        assert loop.train(config, str(run)) == result
    assert "already complete" in caplog.text
    assert (run / "metrics.jsonl").read_bytes() == before


# 1 and 3 lie between checkpoints, 4 and 8 on one, 6 on an evaluation, 5 is past the first epoch.
@pytest.mark.parametrize("step", [1, 5, 6, 8, 12])
def test_a_stopped_run_goes_on_bit_for_bit(whole_run, tmp_path, monkeypatch, step):
    run, result = whole_run
    config = small_config(run.parent / "data")
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        with pytest.raises(Interrupted):
            loop.train(config, str(tmp_path / "run"))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "interrupted"
    again = loop.train(config, str(tmp_path / "run"))
    assert again["eval"] == result["eval"] and again["test"] == result["test"]
    assert metrics_rows(tmp_path / "run") == metrics_rows(run)
    expected, arrays = saved_arrays(run, 12), saved_arrays(tmp_path / "run", 12)
    assert expected.keys() == arrays.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_a_log_line_over_several_steps_is_the_same_after_a_resume(tmp_path, monkeypatch):
    data = tmp_path / "data"
    config = small_config(data, log_every_steps=5)
    whole = loop.train(config, str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        with pytest.raises(Interrupted):
            loop.train(config, str(tmp_path / "broken"))
    broken = loop.train(config, str(tmp_path / "broken"))
    assert broken["flops"] == whole["flops"] > 0
    assert metrics_rows(tmp_path / "broken") == metrics_rows(tmp_path / "whole")


def test_another_config_in_the_directory_is_refused_with_the_keys(whole_run):
    run, _ = whole_run
    before = (run / "config.json").read_bytes()
    with pytest.raises(UserError, match=r"model\.dim: 16 -> 8"):
        loop.train(small_config(run.parent / "data", model__dim=8), str(run))
    assert (run / "config.json").read_bytes() == before


def test_a_diverged_run_stops_with_step_and_loss(tmp_path):
    config = small_config(
        tmp_path / "data",
        optimizer__learning_rate=1e30,
        optimizer__clip_norm=1e30,
        optimizer__warmup_steps=0,
    )
    with pytest.raises(Failure, match=r"step \d+: the loss is"):
        loop.train(config, str(tmp_path / "run"))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "failed"


def test_the_last_step_is_saved_whatever_the_periods(tmp_path):
    config = small_config(
        tmp_path / "data", train_steps=5, checkpoint_every_steps=100, eval_every_steps=100
    )
    result = loop.train(config, str(tmp_path / "run"))
    assert result["step"] == 5
    assert [entry.name for entry in (tmp_path / "run" / "checkpoints").iterdir()] == ["5"]


def test_without_dev_and_test_the_last_checkpoint_is_the_result(tmp_path):
    config = small_config(tmp_path / "data", data__eval_path=None, data__test_path=None)
    result = loop.train(config, str(tmp_path / "run"))
    assert result["eval"] is None and result["test"] is None and result["best_step"] is None


def test_label_smoothing_and_accumulation_are_used(tmp_path):
    first = []
    for name, options in (
        ("plain", {}),
        ("smooth", {"label_smoothing": 0.2}),
        ("accumulated", {"optimizer__accumulation_steps": 4}),
    ):
        config = small_config(
            tmp_path / "data",
            train_steps=3,
            model__dropout_rate=0.0,
            model__word_dropout_rate=0.0,
            **options,
        )
        loop.train(config, str(tmp_path / name))
        first.append(losses(tmp_path / name))
    plain, smooth, accumulated = first
    assert abs(plain[0] - smooth[0]) > 1e-4
    np.testing.assert_allclose(accumulated, plain, rtol=1e-5)


def test_a_command_that_failed_before_its_first_step_protects_nothing(tmp_path):
    wrong = small_config(tmp_path / "data", model__attention__num_kv_heads=1, data__min_count=9)
    with wrong.unlocked():
        wrong.data.train_path = str(tmp_path / "data" / "missing.conllu")
    with pytest.raises(UserError, match="missing"):
        loop.train(wrong, str(tmp_path / "run"))
    result = loop.train(small_config(tmp_path / "data", train_steps=1), str(tmp_path / "run"))
    assert result["status"] == "complete"


def test_other_training_data_in_an_old_directory_is_refused(tmp_path):
    config = small_config(tmp_path / "data", train_steps=2)
    loop.train(config, str(tmp_path / "run"))
    path = Path(config.data.train_path)
    path.write_text(path.read_text(encoding="utf-8") * 2, encoding="utf-8")
    more = small_config(tmp_path / "other", train_steps=4)
    with more.unlocked():
        more.data = config.data
    with pytest.raises(UserError, match="trained on other data"):
        loop.train(more, str(tmp_path / "run"))


def test_an_unexpected_error_leaves_the_status_failed(tmp_path, monkeypatch):
    def broken(self):
        raise OSError("disk full")

    monkeypatch.setattr(loop.Trainer, "_save", broken)
    with pytest.raises(OSError, match="disk full"):
        loop.train(small_config(tmp_path / "data"), str(tmp_path / "run"))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "failed"


def test_a_column_without_labels_is_refused_by_its_key(tmp_path):
    config = small_config(tmp_path / "data", data__tag="xpos")
    path = Path(config.data.train_path)
    rows = path.read_text(encoding="utf-8").split("\n")
    cut = ["\t".join([*r.split("\t")[:4], "_", *r.split("\t")[5:]]) if r else r for r in rows]
    path.write_text("\n".join(cut), encoding="utf-8")
    with pytest.raises(UserError, match=r"data\.tag=xpos"):
        loop.train(config, str(tmp_path / "run"))


def test_unseen_and_missing_labels_on_dev(tmp_path):
    """A tag that training never saw is wrong, without loss; a word without tag is not scored."""
    config = small_config(tmp_path / "data", train_steps=1)
    path = Path(config.data.eval_path)
    first, second, *rest = path.read_text(encoding="utf-8").split("\n\n")
    first, second = first.replace("PUNCT", "X"), second.replace("PUNCT", "_")
    path.write_text("\n\n".join([first, second, *rest]), encoding="utf-8")
    loop.train(config, str(tmp_path / "run"))
    row = next(r for r in metrics_rows(tmp_path / "run") if "eval/accuracy" in r)
    assert row["eval/num_unseen_tags"] == 1
    assert row["eval/num_eval_tokens"] == row["eval/num_words"] - 1
    assert np.isfinite(row["eval/loss"])


def test_more_epochs_of_a_finished_run_lose_no_sentence(tmp_path):
    """The last batch of a run is filled with empty rows; a longer run goes on behind its rows."""
    options = {"train_steps": None, "batch_tokens": 256}
    short = small_config(tmp_path / "data", train_epochs=1.0, **options)
    loop.train(short, str(tmp_path / "run"))
    longer = small_config(tmp_path / "data", train_epochs=3.0, **options)
    result = loop.train(longer, str(tmp_path / "run"))
    whole = loop.train(longer, str(tmp_path / "whole"))
    words, expected = (
        round(each["tokens_per_second"] * each["train_seconds"]) for each in (result, whole)
    )
    assert words == expected
