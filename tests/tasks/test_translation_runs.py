"""Translation from a config to a score, by small runs in this process."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from support.pairs import pairs, pairs_config
from support.runs import counting_programs, metrics_rows, saved_arrays

from attention.errors import Interrupted, UserError
from attention.tools.evaluating import evaluate
from attention.tools.predicting import asking_for, predict_stream
from attention.tools.saved_run import open_run
from attention.training import loop

STEPS = 12


@pytest.fixture(scope="module")
def watched_run(tmp_path_factory):
    """A packed run without a break, and its programs."""
    folder = tmp_path_factory.mktemp("whole")
    with counting_programs() as programs:
        result = loop.train(pairs_config(folder / "data"), str(folder / "run"))
    return folder, result, programs


@pytest.fixture(scope="module")
def whole_run(watched_run):
    """The same without its programs."""
    return watched_run[:2]


def report(run, name: str) -> dict:
    return json.loads((run / "eval" / f"{name}.json").read_text())


def lines(run, name: str) -> list[str]:
    text = (run / "eval" / f"{name}.txt").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


def test_one_program_for_the_whole_packed_run(watched_run):
    *_, programs = watched_run
    assert programs == [(1, 2)]  # dev and test are of different sizes


def test_a_run_has_scores_hypotheses_and_references_of_every_line(whole_run):
    folder, result = whole_run
    run, best = folder / "run", result["best_step"]
    assert result["status"] == "complete" and result["variant"] == "scaled_dot"
    assert list(result["eval"]) == ["bleu", "chrf", "loss", "accuracy"] == list(result["test"])
    found = report(run, f"dev-{best}")
    assert found["num_eval_examples"] == 10
    assert found["num_empty_references"] == 1 and found["num_empty_hypotheses"] >= 1
    assert "tok:13a" in found["bleu_signature"] and "nc:6" in found["chrf_signature"]
    references = lines(run, f"dev-{best}.references")
    assert references == [*(target for _, target in pairs(8, seed=1)), "two dogs", ""]
    hypotheses = lines(run, f"dev-{best}.predictions")
    assert len(hypotheses) == 10 and hypotheses[8] == ""  # nothing comes of a blank source
    assert any(hypotheses)


@pytest.mark.parametrize("step", [3, pytest.param(8, marks=pytest.mark.slow)])  # 8 is saved
def test_a_stopped_run_goes_on_bit_for_bit(whole_run, tmp_path, monkeypatch, step):
    folder, result = whole_run
    take_step = loop.Trainer._take_step

    def take_and_stop(self):
        take_step(self)
        if self.step == step:
            self._interrupt.requested = "SIGTERM"

    config = pairs_config(folder / "data")
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "_take_step", take_and_stop)
        with pytest.raises(Interrupted):
            loop.train(config, str(tmp_path / "run"))
    again = loop.train(config, str(tmp_path / "run"))
    assert again["eval"] == result["eval"] and again["test"] == result["test"]
    assert metrics_rows(tmp_path / "run") == metrics_rows(folder / "run")
    expected = saved_arrays(folder / "run", STEPS)
    arrays = saved_arrays(tmp_path / "run", STEPS)
    assert expected.keys() == arrays.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def test_scores_do_not_depend_on_the_batch_size(whole_run):
    folder, _ = whole_run
    run = str(folder / "run")
    found = [
        evaluate(run, split="dev", checkpoint=str(STEPS), eval_batch_size=rows) for rows in (1, 64)
    ]
    assert found[0].pop("loss") == pytest.approx(found[1].pop("loss"), abs=1e-6)
    assert found[0] == found[1]


def test_two_files_are_scored_and_one_is_translated(whole_run, tmp_path):
    folder, _ = whole_run
    source, target = tmp_path / "news.zh", tmp_path / "news.en"
    source.write_text("red dog\n\ntall man sees\n", encoding="utf-8")
    target.write_text("dog red\n\nsees man tall\n", encoding="utf-8")
    run = str(folder / "run")
    found = evaluate(run, data=f"{source},{target}")
    assert found["split"] == "news" and found["num_eval_examples"] == 3
    assert "bleu" in found and found["num_empty_references"] == 1
    alone = evaluate(run, data=str(source))
    assert "bleu" not in alone and alone["num_eval_examples"] == 3
    target.write_text("dog red\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"news\.zh.*news\.en"):
        evaluate(run, data=f"{source},{target}")


def test_each_line_of_input_has_one_of_output(whole_run):
    folder, _ = whole_run
    saved = open_run(str(folder / "run"))
    given = b"red dog\n\n  \ntwo green cats\nnever seen words\n"
    answers = list(predict_stream(saved, io.BytesIO(given)))
    assert len(answers) == 5 and all(answer.endswith("\n") for answer in answers)
    assert answers[1] == answers[2] == "\n"
    with pytest.raises(UserError, match="--logits: the answers of task=translation have none"):
        list(predict_stream(saved, io.BytesIO(given), logits=True))


def predicted(run, given: bytes, *, num_best=None, alignments=False, decode=()) -> list[str]:
    saved = open_run(str(run), overrides=decode)
    saved = asking_for(saved, num_best=num_best, alignments=alignments)
    return list(predict_stream(saved, io.BytesIO(given)))


def test_each_line_has_as_many_as_asked_for_with_scores_and_pieces(whole_run):
    run = whole_run[0] / "run"
    given = b"red dog\n\ntwo green cats\n"
    plain = predicted(run, given)
    best = predicted(run, given, num_best=2, alignments=True)
    assert [answer.count("\n") for answer in best] == [2, 2, 2]
    for number, (one, answer) in enumerate(zip(plain, best, strict=True), start=1):
        first, second = (line.split("\t") for line in answer.splitlines())
        assert first[0] == second[0] == str(number) and first[2] == one.removesuffix("\n")
        assert float(first[1]) >= float(second[1])
        if number == 2:
            assert first[1:] == ["0.0000", ""]
            continue
        pairs, source, target = first[3], first[4].split(), first[5].split()
        assert (
            "".join(source).replace("\u2581", " ").split()
            == given.decode().splitlines()[number - 1].split()
        )
        found = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
        assert [at for _, at in found] == list(range(len(target)))
        assert all(0 <= of < len(source) for of, _ in found)


def test_draws_repeat_by_their_seed_and_line_whatever_the_batch(whole_run, tmp_path):
    run = str(whole_run[0] / "run")
    given = b"red dog\n" * 4 + b"\n" + b"two green cats tall man\n"
    drawn = [("decode.beam_size", "1"), ("decode.temperature", "1.5")]
    once = predicted(run, given, decode=drawn)
    assert once[4] == "\n" and len(set(once[:4])) > 1, "lines of one text are drawn apart"
    assert predicted(run, given, decode=[*drawn, ("eval_batch_size", "1")]) == once
    assert predicted(run, given, decode=[*drawn, ("decode.seed", "1")]) != once
    three = predicted(run, given, num_best=3, decode=drawn)
    assert [lines.splitlines()[0].split("\t")[2] + "\n" for lines in three] == once
    with pytest.raises(UserError, match=r"decode\.temperature=1\.5 draws .*beam_size=2"):
        predicted(run, given, decode=drawn[1:])


def test_it_learns_to_read_backwards(tmp_path):
    config = pairs_config(
        tmp_path / "data",
        model__dim=32,
        model__dropout_rate=0.0,
        label_smoothing=0.0,
        data__tokenizer="words",
        batch_tokens=256,
        train_steps=400,
        log_every_steps=100,
        eval_every_steps=400,
        checkpoint_every_steps=400,
        optimizer__warmup_steps=50,
        optimizer__learning_rate=5e-3,
    )
    result = loop.train(config, str(tmp_path / "run"))
    assert result["test"]["bleu"] > 60 and result["test"]["accuracy"] > 0.8


@pytest.mark.parametrize(
    ("pointer", "steps"), [("alone", 100), pytest.param("mixed", 300, marks=pytest.mark.slow)]
)
def test_a_pointer_learns_to_copy(tmp_path, pointer, steps):
    config = pairs_config(
        tmp_path / "data",
        "model=recurrent,cross=additive",
        model__pointer=pointer,
        model__dropout_rate=0.0,
        label_smoothing=0.0,
        data__tokenizer="words",
        decode__beam_size=1,
        eval_batch_size=1,  # dev and test by one program
        batch_tokens=256,
        train_steps=steps,
        log_every_steps=50,
        eval_every_steps=steps,
        checkpoint_every_steps=steps,
        optimizer__warmup_steps=10,
        optimizer__learning_rate=2e-2,
    )
    run = tmp_path / "run"
    result = loop.train(config, str(run))
    assert result["test"]["bleu"] > 60 and result["test"]["accuracy"] > 0.8
    again = evaluate(str(run), split="test")
    assert {name: again[name] for name in result["test"]} == result["test"]
    texts = [source for source, _ in pairs(8, seed=3)]
    answers = predicted(run, "".join(f"{text}\n" for text in texts).encode())
    copies = [sorted(a.split()) == sorted(b.split()) for a, b in zip(answers, texts, strict=True)]
    assert sum(copies) >= 5


@pytest.mark.parametrize(
    "argument",
    [
        "encoder=sliding_window,decoder=additive,cross=cosine",
        "model=recurrent,cross=additive",
        # Reads whole sequences only: elsewhere it is scaled_dot.
        pytest.param("variant=longformer", marks=pytest.mark.slow),
        pytest.param("model=recurrent,cross=none", marks=pytest.mark.slow),
        pytest.param("model=recurrent,cross=location_sensitive", marks=pytest.mark.slow),
        pytest.param("model=recurrent,cross=monotonic", marks=pytest.mark.slow),
    ],
)
def test_other_mechanisms_train_and_translate(tmp_path, argument):
    config = pairs_config(tmp_path / "data", argument, train_steps=2, eval_every_steps=2)
    result = loop.train(config, str(tmp_path / "run"))
    assert result["status"] == "complete" and np.isfinite(result["eval"]["loss"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        {"parallelism": "pmap"},
        {"data__pack": "never"},
        {"data__shared_vocabulary": False, "model__tied_embeddings": "output"},
        {"data__tokenizer": "characters"},
        {"data__subword_regularisation": 0.1},
        {"model__tied_embeddings": "none"},
        {"decode__use_cache": False, "decode__beam_size": 1},
        {"decode__temperature": 1.0, "decode__beam_size": 1, "decode__top_k": 5},
        {"dtype": "bfloat16", "model__norm": "post", "model__position": "rope"},
    ],
    ids=str,
)
def test_other_settings_train_and_translate(tmp_path, overrides):
    config = pairs_config(tmp_path / "data", train_steps=2, eval_every_steps=2, **overrides)
    result = loop.train(config, str(tmp_path / "run"))
    assert result["status"] == "complete" and np.isfinite(result["eval"]["loss"])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("decoder=longformer", "'causal'"),
        ("cross=rnn", "'cross'"),
        ("model=recurrent,encoder=rnn", "encoder='rnn': model=recurrent has no self-attention"),
        ("encoder=scaled_dt", "did you mean 'scaled_dot'"),
    ],
)
def test_what_cannot_stand_in_a_place_is_refused_by_name(tmp_path, argument, message):
    with pytest.raises(UserError, match=message):
        pairs_config(tmp_path / "data", argument)
