"""The commands on a translation run, as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest
from support.pairs import OF_TRANSFORMERS, SMALL, SPEC, pairs, write_pairs
from support.runs import command, environ, flags, run

STEPS = 300


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that was stopped by a signal, and the same command again."""
    folder = tmp_path_factory.mktemp("trained")
    lengths = {"train_steps": STEPS, "eval_every_steps": STEPS, "checkpoint_every_steps": STEPS}
    overrides = {**SMALL, **OF_TRANSFORMERS, **write_pairs(folder / "data"), **lengths}
    words = [f"--config={SPEC}", f"--workdir={folder}/run", *flags(overrides)]
    with subprocess.Popen(
        command("train.py", *words), env=environ(), stderr=subprocess.PIPE, text=True
    ) as process:
        metrics, end = folder / "run" / "metrics.jsonl", time.monotonic() + 120
        while not (metrics.exists() and metrics.read_text().count("\n") >= 5):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    stopped = json.loads((folder / "run" / "result.json").read_text()), metrics.read_text()
    return folder / "run", stopped, run("train.py", *words)


def test_train_goes_on_and_says_its_scores_and_what_to_type_next(trained):
    workdir, (stopped, logged), done = trained
    assert stopped["status"] == "interrupted" and 5 <= stopped["step"] < STEPS
    assert done.returncode == 0, done.stderr
    result = json.loads((workdir / "result.json").read_text())
    assert (result["status"], result["step"]) == ("complete", STEPS)
    assert f"resuming at step {stopped['step']} of {STEPS}" in done.stderr
    metrics = (workdir / "metrics.jsonl").read_text()
    assert metrics.startswith(logged)
    rows = [json.loads(line) for line in metrics.splitlines()]
    assert [row["step"] for row in rows if "train/loss" in row] == list(range(1, STEPS + 1))
    for split, name in (("dev", "eval"), ("test", "test")):
        scores = "  ".join(f"{key} {value:.4f}" for key, value in result[name].items())
        assert f"  {split:5} {scores}" in done.stdout
    assert f"python eval.py --workdir={workdir} --split=test" in done.stdout


def test_eval_of_a_split_ends_with_its_scores_and_writes_both_texts(trained):
    workdir, *_ = trained
    done = run("eval.py", f"--workdir={workdir}", "--split=test", "--eval_batch_size=2")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    written = workdir / "eval" / f"test-{STEPS}"
    assert json.loads(written.with_suffix(".json").read_text()) == summary
    assert summary["num_eval_examples"] == 7 and "tok:13a" in summary["bleu_signature"]
    targets = [target for _, target in pairs(7, seed=2)]
    assert (workdir / "eval" / f"test-{STEPS}.references.txt").read_text().splitlines() == targets
    hypotheses = (workdir / "eval" / f"test-{STEPS}.predictions.txt").read_text()
    assert hypotheses.count("\n") == 7


def test_predict_answers_with_as_many_as_asked_for_and_their_pieces(trained):
    workdir, *_ = trained
    wanted = ("--nbest=3", "--alignments", "--decode=beam_size=3,length_penalty=0.0")
    done = run("predict.py", f"--workdir={workdir}", *wanted, stdin="two green cats\n\nred dog\n")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [int(line[0]) for line in lines] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    scores = [[float(line[1]) for line in lines[i : i + 3]] for i in (0, 3, 6)]
    assert all(found == sorted(found, reverse=True) for found in scores)
    assert [line[1:3] for line in lines[3:6]] == [["0.0000", ""], *[["-inf", ""]] * 2]
    for line in (*lines[:3], *lines[6:]):
        aligned, source, target = line[3:]
        assert "".join(source.split()).replace("\u2581", " ").strip() in (
            "two green cats",
            "red dog",
        )
        places = [tuple(map(int, pair.split("-"))) for pair in aligned.split()]
        assert [place for _, place in places] == list(range(len(target.split())))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict.py", "--workdir={}", "--nbest=3"], ["decode.beam_size", "3"]),
        (["predict.py", "--workdir={}", "--decode=beam=3"], ["beam", "decode.beam_size"]),
        (["predict.py", "--workdir={}", "--logits"], ["--logits", "translation"]),
        (["eval.py", "--workdir={}", "--data=missing.zh,missing.en"], ["missing.zh"]),
    ],
)
def test_wrong_input_is_one_line_and_status_2(trained, arguments, words):
    script, *rest = [argument.format(trained[0]) for argument in arguments]
    done = run(script, *rest, stdin="red dog\n")
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in done.stderr
    assert all(word in lines[0] for word in words), lines[0]
