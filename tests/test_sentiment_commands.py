"""The commands on a sentiment run, as a user types them."""

from __future__ import annotations

import json

import pytest
from support.reviews import SPEC, review_overrides, reviews, tsv
from support.runs import flags, run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    overrides = review_overrides(
        folder / "data", train_steps=60, eval_every_steps=20, optimizer__learning_rate=0.02
    )
    done = run("train.py", f"--config={SPEC}", f"--workdir={folder}/run", *flags(overrides))
    assert done.returncode == 0, done.stderr
    return folder / "run", done


def test_train_says_its_scores_and_what_to_type_next(trained):
    workdir, done = trained
    result = json.loads((workdir / "result.json").read_text())
    for split, name in (("dev", "eval"), ("test", "test")):
        scores = "  ".join(f"{key} {value:.4f}" for key, value in result[name].items())
        assert f"  {split:5} {scores}" in done.stdout
    assert f"python eval.py --workdir={workdir} --split=test" in done.stdout
    # Good words and bad ones are soon told apart.
    assert result["test"]["accuracy"] > 0.8


def test_eval_of_a_split_ends_with_the_confusion_matrix(trained):
    workdir, _ = trained
    done = run("eval.py", f"--workdir={workdir}", "--split=test", "--eval_batch_size=2")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    name = f"test-{summary['step']}"
    assert json.loads((workdir / "eval" / f"{name}.json").read_text()) == summary
    wrote = f"{name}.json and beside it {name}.predictions.txt, {name}.references.txt"
    assert f"wrote {workdir}/eval/{wrote}\n" in done.stdout
    assert summary["labels"] == ["bad", "good"] and sum(map(sum, summary["confusion"])) == 9


def test_eval_of_files_and_predict_agree(trained, tmp_path):
    workdir, _ = trained
    made = reviews(11, seed=9)
    (tmp_path / "mine.tsv").write_text(tsv(made), encoding="utf-8")
    done = run("eval.py", f"--workdir={workdir}", f"--data={tmp_path}/mine.tsv")
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["split"] == "mine" and summary["num_eval_examples"] == 11
    written = (workdir / "eval" / f"mine-{summary['step']}.predictions.txt").read_text("utf-8")
    lines = [text for text, _ in made]
    lines[4:4] = ["", "  "]
    done = run("predict.py", f"--workdir={workdir}", stdin="".join(f"{x}\n" for x in lines))
    assert done.returncode == 0, done.stderr
    answers = done.stdout.split("\n")
    assert answers[4:6] == ["", ""] and answers.pop() == "" and len(answers) == 13
    taken = [answer.split("\t")[0] for answer in answers if answer]
    assert taken == [line.split("\t")[0] for line in written.splitlines()]
    assert all(0.5 <= float(answer.split("\t")[1]) <= 1 for answer in answers if answer)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict.py", "--workdir={}", "--format=conllu"], ["--format=conllu", "sentiment"]),
        (["eval.py", "--workdir={}", "--data=missing.tsv"], ["missing.tsv"]),
        (
            ["train.py", f"--config={SPEC}", "--workdir={}2", "--config.model.pooling=avg"],
            ["model.pooling", "mean, max"],
        ),
    ],
)
def test_wrong_input_is_one_line_and_status_2(trained, arguments, words):
    script, *rest = [argument.format(trained[0]) for argument in arguments]
    done = run(script, *rest)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in done.stderr
    assert all(word in lines[0] for word in words), lines[0]
