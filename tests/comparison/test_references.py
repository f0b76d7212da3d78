"""Real runs of every task leave what a comparison by example needs."""

from __future__ import annotations

import json

import pytest
from support.reviews import review_config, reviews
from support.runs import small_config
from support.treebank import sentences

from attention.comparison.examples import load_examples, score_of
from attention.comparison.runs import find_runs
from attention.tasks.pos_tagging import Task as Tagging
from attention.tasks.sentiment import Task as Sentiment
from attention.training import loop


@pytest.mark.parametrize("task", ["pos_tagging", "sentiment"])
def test_references_are_written_and_give_the_reported_score(tmp_path, task):
    make = small_config if task == "pos_tagging" else review_config
    loop.train(make(tmp_path / "data", train_steps=6), str(tmp_path / "run"))
    (run,) = find_runs([str(tmp_path / "run")])
    best = run.result["best_step"]
    text = (run.path / "eval" / f"test-{best}.references.txt").read_text("utf-8")
    if task == "pos_tagging":
        gold = [" ".join(f"{w}_{t}" for w, t in s) for s in sentences(9, seed=2)]
    else:
        gold = [f"{label}\t{text}" for text, label in reviews(9, seed=2)]
    assert text == "".join(f"{line}\n" for line in gold)
    for split in ("dev", "test"):
        found = load_examples(run, split, "accuracy")
        total = score_of("accuracy", found.statistics.sum(axis=0))
        assert total == pytest.approx(run.score(split, "accuracy"), abs=1e-12)
    counts = json.loads((run.path / "eval" / f"test-{best}.json").read_text())
    scored = counts.get("num_scored", counts["num_eval_tokens"])
    assert load_examples(run, "test", "accuracy").statistics[:, 1].sum() == scored


@pytest.mark.fast
def test_what_has_no_label_has_a_dash_below_in_its_place(tmp_path):
    tagging = Tagging.__new__(Tagging)
    tagging.config = small_config(tmp_path)
    example = {"words": ["a", "b_"], "upos": ["X", "_"], "xpos": []}
    assert tagging.reference_line(example) == "a_X b___"
    assert tagging.reference_line({"words": ["a", "b"]}) == "a__ b__"
    sentiment = Sentiment.__new__(Sentiment)
    assert sentiment.reference_line({"text": "a\nb\tc", "label": ""}) == "_\ta b c"
    assert sentiment.reference_line({"text": "a", "label": "so\tgood"}) == "so good\ta"
