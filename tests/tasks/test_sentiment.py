"""The parts of the sentiment task, without a training run."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from support.reviews import review_config, reviews

from attention.configuration.check import CHOICES
from attention.data.encoded import EncodedSplit
from attention.errors import UserError
from attention.models.pooling import POOLINGS
from attention.tasks.sentiment import Task
from attention.training.experiment import open_dataset

pytestmark = pytest.mark.fast


def examples(*pairs: tuple[str, str]) -> list[dict]:
    return [
        {"text": text, "label": label, "line": line, "file": "made.tsv"}
        for line, (text, label) in enumerate(pairs, start=1)
    ]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return review_config(tmp_path_factory.mktemp("data"), data__tokenizer="words")


@pytest.fixture(scope="module")
def task(config):
    return Task.fit(config, examples(*reviews(60, seed=0)))


def encoded(task, given) -> EncodedSplit:
    return EncodedSplit(given, task.encode, streams=task.STREAMS, max_length=32)


def outputs(classes: list[int], losses: list[float] | None = None) -> dict:
    found = {"class": np.array(classes), "loss": np.array(losses or [0.0] * len(classes))}
    return {"examples": found}


def test_labels_are_those_of_the_training_split_without_no_label(config):
    made = [("a film", "x"), ("a plot", "_"), ("a scene", ""), ("the film", "y")]
    assert Task.fit(config, examples(*made)).labels.names == ("x", "y")
    for label, number in (("x", r"1 different labels \(x\)"), ("_", r"0 .* \(none\)")):
        with pytest.raises(UserError, match=f"the training split has {number}: .* two or more"):
            Task.fit(config, examples(("a film", label)))


def test_a_label_may_be_missing_unknown_or_known(task):
    for label, expected in (("_", -1), ("", -1), ("bad", 0), ("good", 1), ("odd", -2)):
        found = task.encode({"text": "a film", "label": label})
        assert found["examples"]["labels"].tolist() == [expected]
    assert task.encode({"text": "a film"})["examples"]["labels"].tolist() == [-1]


def test_scores_by_hand(task):
    """Three of five labelled texts are right; the unseen label is an error in both scores."""
    given = examples(
        ("a", "bad"), ("b", "good"), ("c", "good"), ("d", "_"), ("e", "odd"), ("", "bad")
    )
    split = encoded(task, given)
    found = outputs([0, 1, 0, 1, 1, 0], [0.5, 0.25, 1.0, 0.0, 0.0, 2.25])
    metrics, counts = task.score(split, found)
    # Class "bad": 2 hits, 2 gold, 3 predicted; "good": 1 hit, 2 gold, 2 predicted; "odd": 0.
    assert metrics == {
        "accuracy": pytest.approx(3 / 5),
        "f1": pytest.approx((4 / 5 + 2 / 4 + 0) / 3),
        "loss": pytest.approx(1.0),
    }
    assert counts == {"num_eval_tokens": 5, "num_scored": 5, "num_unseen_labels": 1}
    assert task.details(split, found) == {
        "labels": ["bad", "good"],
        "confusion": [[2, 0], [1, 1]],
        "unseen_confusion": [0, 1],
    }


def test_without_unseen_labels_there_is_nothing_of_them(task):
    split = encoded(task, examples(("a", "bad"), ("b", "good")))
    assert task.details(split, outputs([0, 0])) == {
        "labels": ["bad", "good"],
        "confusion": [[1, 0], [1, 0]],
    }
    assert task.score(split, outputs([0, 0]))[0]["f1"] == pytest.approx((2 / 3 + 0) / 2)


def test_an_unlabelled_split_has_counts_only(task):
    split = encoded(task, examples(("a film", "_"), ("a plot", "_")))
    metrics, counts = task.score(split, outputs([0, 1]))
    assert metrics == {} and counts["num_scored"] == 0 and counts["num_eval_tokens"] == 4
    assert task.details(split, outputs([0, 1])) == {}


def test_only_unseen_labels_score_zero(task):
    split = encoded(task, examples(("a film", "odd")))
    assert task.score(split, outputs([0]))[0] == {"accuracy": 0.0, "f1": 0.0, "loss": 0.0}


def test_a_prediction_is_one_line_whatever_the_text_holds(task):
    (example,) = examples(("a\tfilm\nwith\u2028lines ", "bad"))
    line = task.prediction_line(example, outputs([1]))
    assert line == "good\ta film with lines"
    assert line.splitlines() == [line]


def test_an_answer_is_label_probability_and_logits(task):
    found = outputs([1])
    found["examples"] |= {"probability": np.array([0.75]), "logits": np.array([[-0.5, 0.25]])}
    label, probability, logits = task.write_output({}, found, format="text").split("\t")
    assert (label, probability, json.loads(logits)) == ("good", "0.750000", [-0.5, 0.25])
    assert task.write_output({}, None, format="text") == "\n"


def test_input_is_a_text_a_line(task):
    stream = io.BytesIO("\ufeffa film\r\n\n \t \nżart\u2028李".encode())
    given = list(task.read_input(stream, format="text"))
    assert [one["text"] for one in given] == ["a film", "", " \t ", "żart\u2028李"]
    assert [task.is_blank(one) for one in given] == [False, True, True, False]
    with pytest.raises(UserError, match="stdin:1: expected UTF-8"):
        list(task.read_input(io.BytesIO(b"\xff\n"), format="text"))


@pytest.mark.parametrize("name", ["sentencepiece", "words", "characters", "bytes"])
def test_a_saved_task_encodes_as_before(tmp_path, name):
    config = review_config(tmp_path / "data", data__tokenizer=name)
    task = Task.fit(config, examples(*reviews(60, seed=0)))
    task.save(tmp_path)
    again = Task.load(config, tmp_path)
    for text in ("a lovely film", "", "sonst was 李"):
        example = {"text": text, "label": "good"}
        before, after = task.encode(example), again.encode(example)
        np.testing.assert_array_equal(before["tokens"]["ids"], after["tokens"]["ids"])
        np.testing.assert_array_equal(before["examples"]["labels"], after["examples"]["labels"])


def test_a_sample_draws_another_segmentation(tmp_path):
    config = review_config(tmp_path, data__subword_regularisation=0.1)
    task = Task.fit(config, examples(*reviews(60, seed=0)))
    (example,) = examples(("the lovely film ends.", "good"))
    drawn = {tuple(task.encode(example, sample=seed)["tokens"]["ids"]) for seed in range(20)}
    assert len(drawn) > 3
    assert {task.tokenizer.decode(ids) for ids in drawn} == {"the lovely film ends."}


def test_the_data_set_is_asked_for_what_the_task_has_as_options(config, monkeypatch):
    monkeypatch.setattr(Task, "options", staticmethod(lambda config: {"source_language": "en"}))
    with pytest.raises(UserError, match="source_language='en' means nothing to dataset=files"):
        open_dataset(config)


def test_the_poolings_of_the_check_are_those_there_are():
    assert set(CHOICES["model.pooling"]) == set(POOLINGS)
