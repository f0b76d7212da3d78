"""The parts of the translation task, without a training run."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
from flax import nnx
from support.pairs import pairs, pairs_config

from attention.assembly import make_sequence_to_sequence
from attention.configuration import load_config
from attention.data.dataset import Dataset, Direction
from attention.data.encoded import EncodedSplit
from attention.data.tokenizers.special import EOS, PAD
from attention.errors import UserError
from attention.metrics.translation import score_translations
from attention.tasks import translation
from attention.tasks.translation import Task
from attention.tools.predicting import asking_for, decode_overrides
from attention.training.experiment import open_task
from attention.training.run_directory import RunDirectory

pytestmark = pytest.mark.fast


def examples(*made: tuple[str, str]) -> list[dict]:
    return [
        {"source": source, "target": target, "line": line, "file": "made"}
        for line, (source, target) in enumerate(made, start=1)
    ]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return pairs_config(tmp_path_factory.mktemp("data"), data__tokenizer="words")


@pytest.fixture(scope="module")
def task(config):
    return Task.fit(config, examples(*pairs(60, seed=0)))


def hypothesis(task, text: str, length: int = 6) -> np.ndarray:
    """Returns the ids of a text as a search gives them."""
    ids = [*task.tokenizers["target"].encode(text).tolist(), EOS]
    return np.array([*ids, *[PAD] * (length - len(ids))], np.int32)


def test_the_words_for_how_it_was_scored_need_no_scoring_again(task, monkeypatch):
    given = examples(("red dog", "dog red"), ("", "x"))
    split = EncodedSplit(given, task.encode, streams=task.STREAMS, max_length=16)
    labels = split.flat["target"]["labels"]
    found = np.stack([hypothesis(task, "dog red")[None]] * 2)
    tokens = {"class": labels, "loss": np.zeros(len(labels))}
    outputs = {"target": tokens, "examples": {"hypotheses": found}}
    calls = []

    def counted(hypotheses, references, **how):
        calls.append(hypotheses)
        return score_translations(hypotheses, references, **how)

    monkeypatch.setattr(translation, "score_translations", counted)
    metrics, _ = task.score(split, outputs)
    details = task.details(split, outputs)
    assert calls == [["dog red", ""]]
    scores = score_translations(["dog red", ""], ["dog red", "x"])
    assert metrics["bleu"] == scores.bleu and details["bleu_signature"] == scores.bleu_signature
    assert details["chrf_signature"] == scores.chrf_signature


def test_answers_hold_what_they_are_asked_for(task):
    (example,) = examples(("red dog", ""))
    found = np.stack([hypothesis(task, text) for text in ("dog red", "dog")])[None]
    places = np.array([[[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]])
    scores = np.array([[-0.5, -2.0]], np.float32)
    outputs = {"examples": {"hypotheses": found, "scores": scores, "alignments": places}}

    def written(outputs, **asked):
        return task.asked_for(**asked).write_output(example, outputs, format="text")

    alone = {"num_best": None, "alignments": False}
    assert written(outputs, **alone) == task.write_output(example, outputs, format="text")
    assert written(outputs, **alone) == "dog red\n"
    assert (
        written(outputs, **alone | {"alignments": True}) == "dog red\t1-0 0-1\tred dog\tdog red\n"
    )
    assert (
        written(outputs, num_best=2, alignments=False) == "1\t-0.5000\tdog red\n1\t-2.0000\tdog\n"
    )
    both = written(outputs, num_best=2, alignments=True).splitlines()
    assert both[1] == "1\t-2.0000\tdog\t1-0\tred dog\tdog"
    assert written(None, **alone | {"alignments": True}) == "\n"
    assert written(None, num_best=2, alignments=True) == "1\t0.0000\t\n1\t-inf\t\n"
    assert task.ANSWERED == {"examples": ("hypotheses", "scores")}, "the asked task is another"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"score__tokenizer": "13b"}, r"score\.tokenizer='13b' is not one of .*did you mean '13a'"),
        ({"decode__length_penalty": 1000.0}, r"decode\.length_penalty is 1000\.0; .*float32"),
        (
            {"model__position": "learned", "decode__max_length": 17},
            r"position 16 is past the last one of model\.position='learned', 15",
        ),
    ],
    ids=str,
)
def test_a_search_or_scores_that_cannot_be_are_refused_with_the_model(
    tmp_path, task, overrides, message
):
    task = Task(pairs_config(tmp_path, data__tokenizer="words", **overrides), task.tokenizers)
    with pytest.raises(UserError, match=message):
        nnx.eval_shape(lambda: task.make_model(nnx.Rngs(0)))


@pytest.mark.parametrize(("rate", "expected"), [(None, 0.4), (0.1, 0.1), (0, None)])
def test_attention_weights_are_dropped_at_their_own_rate_in_every_place(rate, expected):
    overrides = {"model.dropout_rate": 0.4, "model.attention_dropout_rate": rate}
    config = load_config("configs/translation.py:size=tiny", overrides)
    sizes = {"source_size": 9, "target_size": 9, "end_id": EOS}
    model: Any = make_sequence_to_sequence(config, **sizes, rngs=nnx.Rngs(0))
    (encoder_block,), (decoder_block,) = model.encoder.blocks, model.decoder.blocks
    attentions = (
        encoder_block.attention,
        decoder_block.self_attention,
        decoder_block.cross_attention,
    )
    for attention in attentions:
        own = attention.dropout.rate
        assert (None if own is None else float(own[...])) == pytest.approx(expected)
    assert float(encoder_block.dropout.rate[...]) == pytest.approx(0.4)


@pytest.mark.parametrize("cross", ["additive", "location_sensitive"])
def test_a_recurrent_model_drops_no_weights_of_attention(cross):
    config = load_config(
        f"configs/translation.py:size=tiny,model=recurrent,cross={cross}",
        {"model.dropout_rate": 0.4},
    )
    sizes = {"source_size": 9, "target_size": 9, "end_id": EOS}
    model: Any = nnx.eval_shape(
        lambda: make_sequence_to_sequence(config, **sizes, rngs=nnx.Rngs(0))
    )
    assert model.decoder.attention.dropout.rate is None
    assert model.decoder.dropout.rate is not None


def test_a_reference_is_one_line_whatever_the_text_holds(task):
    (example,) = examples(("x", "two\ndogs\u2028run  on\x85"))
    assert task.reference_line(example) == "two dogs run  on"


def test_lines_are_encoded_only_where_they_are_drawn_by(task, tmp_path):
    (example,) = examples(("red dog", "dog red"))
    assert "examples" not in task.encode(example)
    drawn = {"decode__beam_size": 1, "decode__temperature": 1.0}
    task = Task(pairs_config(tmp_path, data__tokenizer="words", **drawn), task.tokenizers)
    assert task.encode(example)["examples"]["line"].tolist() == [1]


def test_a_run_from_before_these_options_searches_as_it_did(task):
    config = task.config.copy_and_resolve_references().unlock()
    for key in ("temperature", "top_k", "top_p", "seed"):
        del config.decode[key]
    del config.data["tokenizer_texts"]
    assert Task(config, task.tokenizers).search_settings() == task.search_settings()
    config.data.tokenizer = "sentencepiece"
    assert Task.fit(config, examples(*pairs(60, seed=0))).tokenizers["source"].size > 4


@pytest.mark.parametrize(
    ("data", "score", "warnings"), [(True, False, 1), (True, True, 0), (False, True, 0)]
)
def test_small_letters_against_capitals_are_warned_of(tmp_path, caplog, data, score, warnings):
    given = {"data__lowercase": data, "score__lowercase": score}
    config = pairs_config(tmp_path, data__tokenizer="words", **given)
    Task.fit(config, examples(*pairs(20, seed=0)))
    assert len(caplog.messages) == warnings
    assert all("set score.lowercase=true" in message for message in caplog.messages)


def scored_by(task) -> str:
    return task.scoring_settings()[0]


@pytest.mark.parametrize(
    ("languages", "direction", "tokenizer"),
    [
        ({}, None, "13a"),
        ({"data__target_language": "zh"}, None, "zh"),  # of files
        ({}, Direction("en", "ja"), "char"),  # the data set's own choice
        ({"score__tokenizer": "intl"}, Direction("en", "zh"), "intl"),
    ],
)
def test_scores_know_the_language_of_the_data_also_in_a_saved_run(
    tmp_path, task, languages, direction, tokenizer
):
    config = pairs_config(tmp_path / "data", data__tokenizer="words", **languages)
    train: Any = examples(*pairs(20, seed=0))
    run = RunDirectory(tmp_path / "run")
    run.create()
    fitted = open_task(config, run, Dataset("made", {"train": train}, direction))
    loaded = Task.load(config, run.tokenizer)
    assert scored_by(fitted) == scored_by(loaded) == f"tokenizer={tokenizer}"


@pytest.mark.parametrize("text", ["", "beam_size", "=2", "beam_size=", "beam_size=1,,"])
def test_what_is_no_key_and_value_is_refused(text):
    with pytest.raises(UserError, match=r"--decode=.*: expected KEY=VALUE"):
        decode_overrides(text)


def test_keys_and_values_are_overrides_of_decode():
    pairs = decode_overrides("beam_size=1, temperature=0.8")
    assert pairs == [("decode.beam_size", "1"), ("decode.temperature", "0.8")]
    assert decode_overrides(None) == []


def test_other_tasks_have_one_answer_a_line():
    saved = types.SimpleNamespace(task=object(), config=types.SimpleNamespace(task="sentiment"))
    assert asking_for(saved, num_best=None, alignments=False) is saved
    with pytest.raises(UserError, match=r"--nbest=2 is for translation, .* task=sentiment"):
        asking_for(saved, num_best=2, alignments=True)
    with pytest.raises(UserError, match="--alignments is for translation"):
        asking_for(saved, num_best=None, alignments=True)


def test_a_model_without_attention_has_no_alignments(tmp_path, task):
    config = pairs_config(tmp_path, "model=recurrent,cross=none", data__tokenizer="words")
    with pytest.raises(UserError, match="--alignments: a model with cross=none"):
        Task(config, task.tokenizers).asked_for(num_best=None, alignments=True)
