"""Sentiment from a config to a score, by small runs in this process."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from support.made_up_variants import install_unpackable
from support.reviews import SPEC, review_config, reviews
from support.runs import counting_programs, losses, metrics_rows, saved_arrays

from attention.data.packing import bucket_lengths
from attention.errors import Interrupted, UserError
from attention.tools.evaluating import evaluate
from attention.tools.predicting import predict, predict_stream
from attention.tools.saved_run import open_run
from attention.training import loop

LONG = "plot " * 50  # over data.max_length=32 in every tokenizer


@pytest.fixture(scope="module")
def watched_run(tmp_path_factory):
    """A packed run without a break, with every kind of noise in training, and its programs."""
    folder = tmp_path_factory.mktemp("whole")
    with counting_programs() as programs:
        result = loop.train(noisy(folder), str(folder / "run"))
    return folder, result, programs


@pytest.fixture(scope="module")
def whole_run(watched_run):
    """The same without its programs."""
    return watched_run[:2]


def noisy(folder):
    """The config of `whole_run`; its second epoch begins at step 5."""
    return review_config(
        folder / "data",
        model__word_dropout_rate=0.2,
        data__subword_regularisation=0.1,
        label_smoothing=0.1,
        optimizer__weight_decay=0.1,
    )


def stop_at(monkeypatch, step: int) -> None:
    """Makes training behave as if a signal had come after this step."""
    take_step = loop.Trainer._take_step

    def take_and_stop(self):
        take_step(self)
        if self.step == step:
            self._interrupt.requested = "SIGTERM"

    monkeypatch.setattr(loop.Trainer, "_take_step", take_and_stop)


def report(run, name: str) -> dict:
    (path,) = (run / "eval").glob(f"{name}-*.json")
    return json.loads(path.read_text())


def predictions(run, name: str) -> str:
    (path,) = (run / "eval").glob(f"{name}-*.predictions.txt")
    return path.read_text(encoding="utf-8")


def test_one_program_for_the_whole_packed_run(watched_run):
    *_, programs = watched_run
    assert programs == [(1, 1)]  # dev and test fill as many rows


def test_a_run_has_scores_reports_and_predictions_of_every_text(whole_run):
    folder, result = whole_run
    assert result["status"] == "complete" and result["task"] == "sentiment"
    assert list(result["eval"]) == list(result["test"]) == ["accuracy", "f1", "loss"]
    for seed, split, count in ((1, "dev", 12), (2, "test", 9)):
        found = report(folder / "run", split)
        matrix = np.array(found["confusion"])
        assert found["labels"] == ["bad", "good"] and matrix.sum() == count
        assert found["accuracy"] == np.trace(matrix) / count
        lines = predictions(folder / "run", split).splitlines()
        taken = [line.split("\t") for line in lines]
        made = reviews(count, seed=seed)
        assert [text for _, text in taken] == [text for text, _ in made]
        gold = [label for _, label in made]
        assert sum(a == b for (a, _), b in zip(taken, gold, strict=True)) == np.trace(matrix)


@pytest.mark.parametrize(  # inside epochs, and on a checkpoint
    "step", [7, *(pytest.param(step, marks=pytest.mark.slow) for step in (3, 8))]
)
def test_a_stopped_run_goes_on_bit_for_bit(whole_run, tmp_path, monkeypatch, step):
    folder, result = whole_run
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        with pytest.raises(Interrupted):
            loop.train(noisy(folder), str(tmp_path / "run"))
    again = loop.train(noisy(folder), str(tmp_path / "run"))
    assert again["eval"] == result["eval"] and again["test"] == result["test"]
    assert metrics_rows(tmp_path / "run") == metrics_rows(folder / "run")
    expected, arrays = saved_arrays(folder / "run", 12), saved_arrays(tmp_path / "run", 12)
    assert expected.keys() == arrays.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_scores_do_not_depend_on_the_batch_size_or_on_packing(whole_run):
    folder, _ = whole_run
    run, found, lines = folder / "run", {}, set()
    for rows in (1, 3, 64):
        found[rows] = evaluate(str(run), split="dev", checkpoint="12", eval_batch_size=rows)
        lines.add((run / "eval" / "dev-12.predictions.txt").read_bytes())
    path, before = run / "config.json", (run / "config.json").read_text()
    path.write_text(before.replace('"pack": "always"', '"pack": "never"'))
    try:
        found["never"] = evaluate(str(run), split="dev", checkpoint="12")
    finally:
        path.write_text(before)
    lines.add((run / "eval" / "dev-12.predictions.txt").read_bytes())
    assert '"pack": "always"' in before and len(lines) == 1
    (logged,) = [row for row in metrics_rows(run) if row["step"] == 12 and "eval/loss" in row]
    given = [one.pop("loss") for one in found.values()]
    np.testing.assert_allclose(given, logged["eval/loss"], atol=1e-6)
    assert all(one == found["never"] for one in found.values())


def test_sampling_changes_training_and_not_evaluation(tmp_path):
    still = {"train_steps": 2, "model__dropout_rate": 0.0}
    for name, alpha in (("plain", 0.0), ("drawn", 0.1)):
        config = review_config(tmp_path / "data", data__subword_regularisation=alpha, **still)
        loop.train(config, str(tmp_path / name))
    assert losses(tmp_path / "plain") != losses(tmp_path / "drawn")
    plain, drawn = report(tmp_path / "plain", "dev"), report(tmp_path / "drawn", "dev")
    assert plain["num_eval_tokens"] == drawn["num_eval_tokens"]


def test_a_text_is_pooled_alone_whatever_is_beside_it(whole_run):
    folder, _ = whole_run
    saved = open_run(str(folder / "run"))
    names = {"examples": ("logits",)}
    one = {"text": "lovely", "label": "_", "line": 1, "file": "stdin"}
    others = [{**one, "text": text} for text, _ in reviews(20, seed=5, longest=20)]
    (alone,) = predict(saved, [one], names=names)
    among = predict(saved, [others[0], one, *others[1:]], names=names)[1]
    np.testing.assert_allclose(
        among["examples"]["logits"], alone["examples"]["logits"], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("tokenizer", "pooling"),
    [
        ("sentencepiece", "attention"),
        ("words", "max"),
        ("characters", "first"),
        ("bytes", "mean"),
    ],
)
def test_tokenizers_and_poolings_take_any_text(tmp_path, caplog, tokenizer, pooling):
    config = review_config(
        tmp_path / "data", data__tokenizer=tokenizer, model__pooling=pooling, train_steps=2
    )
    assert config.data.pack == "always"
    loop.train(config, str(tmp_path / "run"))
    rows = [
        {"text": "a lovely film", "label": "good"},
        {"text": "", "label": "bad"},
        {"text": "\u200b \u3000", "label": "good"},
        {"text": LONG, "label": "bad"},
        {"text": "unknown 字 words", "label": "so-so"},
        {"text": "the plot"},
    ]
    given = tmp_path / "mine.jsonl"
    given.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with caplog.at_level("WARNING"):
        found = evaluate(str(tmp_path / "run"), data=str(given))
    assert found["split"] == "mine" and found["num_eval_examples"] == 6
    assert (found["num_scored"], found["num_unseen_labels"]) == (5, 1)
    assert found["num_truncated_examples"] == 1
    assert f"{given}:4: " in caplog.text and "over data.max_length=32: is truncated" in caplog.text
    assert np.isfinite(found["loss"])
    assert len(predictions(tmp_path / "run", "mine").splitlines()) == 6
    saved = open_run(str(tmp_path / "run"))
    lines = ["a lovely film", "", " \t", "\u200b", LONG, "字"]
    text = "".join(f"{line}\n" for line in lines).encode()
    answers = list(predict_stream(saved, io.BytesIO(text), logits=True))
    assert len(answers) == 6
    assert [answer == "\n" for answer in answers] == [not line.strip() for line in lines]
    for answer in answers[:1] + answers[3:]:
        label, probability, logits = answer.rstrip("\n").split("\t")
        numbers = np.array(json.loads(logits))
        assert label == ("bad", "good")[numbers.argmax()]
        expected = np.exp(numbers - numbers.max())
        assert float(probability) == pytest.approx(1 / expected.sum(), abs=2e-6)


def test_a_tagger_format_is_refused(whole_run):
    folder, _ = whole_run
    saved = open_run(str(folder / "run"))
    with pytest.raises(UserError, match="--format=conllu is not for task=sentiment, which has te"):
        next(predict_stream(saved, io.BytesIO(b"a film\n"), format="conllu"))


def test_pmap_and_accumulation_give_the_losses_of_jit(tmp_path):
    found = {}
    for name, options in (
        ("jit", {}),
        ("pmap", {"parallelism": "pmap", "optimizer__accumulation_steps": 2}),
    ):
        still = {"train_steps": 3, "model__dropout_rate": 0.0}
        config = review_config(tmp_path / "data", **still, **options)
        loop.train(config, str(tmp_path / name))
        found[name] = losses(tmp_path / name)
    assert len(set(found["jit"])) == 3
    np.testing.assert_allclose(found["pmap"], found["jit"], rtol=1e-5)


def test_a_variant_that_cannot_pack_gets_length_buckets(tmp_path, monkeypatch, caplog):
    name = install_unpackable(monkeypatch)
    config = review_config(
        tmp_path / "data", spec=f"{SPEC},variant={name}", data__tokenizer="characters"
    )
    assert config.data.pack == "never"
    with caplog.at_level("INFO"), counting_programs() as programs:
        result = loop.train(config, str(tmp_path / "run"))
    assert result["status"] == "complete" and len(losses(tmp_path / "run")) == 12
    assert "no packing" in caplog.text
    assert 1 < programs[0][0] <= len(bucket_lengths(32))


def test_a_run_ends_where_dev_stalls(tmp_path):
    config = review_config(
        tmp_path / "data",
        optimizer__learning_rate=0.0,
        eval_every_steps=1,
        early_stopping_evaluations=2,
    )
    result = loop.train(config, str(tmp_path / "run"))
    assert result["stopped_early"] and (result["step"], result["best_step"]) == (3, 1)
