"""BLEU and chrF: what is compared with what, and what is refused."""

import pytest

from attention.errors import UserError
from attention.metrics.translation import (
    TOKENIZERS,
    score_translations,
    signatures,
    tokenizer_for,
)

pytestmark = pytest.mark.fast
LINES = ["Two dogs, one stick.", "A man sleeps on the green bench.", "It isn't far."]


def test_the_references_themselves_score_100_and_the_signatures_say_how():
    scores = score_translations(LINES, LINES)
    assert scores.bleu == pytest.approx(100.0) and scores.chrf == pytest.approx(100.0)
    for part in ("nrefs:1", "tok:13a", "smooth:exp", "version:"):
        assert part in scores.bleu_signature
    assert "nc:6" in scores.chrf_signature and "version:" in scores.chrf_signature


@pytest.mark.parametrize(("tokenize", "score"), [("13a", 100.0), ("none", 5.41)])
def test_tokenized_text_is_scored_as_the_signature_says(tokenize, score):
    hypothesis = 'It is far : " no " ( she said ) , for 3 % .'
    reference = 'It is far: "no" (she said), for 3%.'
    found = score_translations([hypothesis], [reference], tokenize=tokenize)
    assert f"tok:{tokenize}" in found.bleu_signature
    assert found.bleu == pytest.approx(score, abs=0.01)


@pytest.mark.parametrize("options", [{}, {"tokenize": "zh", "lowercase": True}])
def test_signatures_need_no_lines(options):
    scores = score_translations(LINES, LINES, **options)
    assert signatures(**options) == (scores.bleu_signature, scores.chrf_signature)


def test_case_counts_unless_it_is_asked_not_to():
    upper = [line.upper() for line in LINES]
    assert score_translations(upper, LINES).bleu < 50
    lower = score_translations(upper, LINES, lowercase=True)
    assert lower.bleu == pytest.approx(100.0) and "case:lc" in lower.bleu_signature


def test_every_line_counts_the_empty_ones_too():
    whole = score_translations(LINES, LINES).bleu
    assert score_translations([*LINES[:2], ""], LINES).bleu < whole
    assert score_translations([*LINES, "one more"], [*LINES, ""]).bleu < whole
    assert score_translations(["", ""], ["a b", "c d"]).bleu == 0.0


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a", "b"], ["a"], "2 hypotheses and 1 references"),
        (["a"], ["a", "b"], "1 hypotheses and 2 references"),
        ([], [], "no line to score"),
    ],
)
def test_numbers_of_lines_that_differ_are_refused(hypotheses, references, message):
    with pytest.raises(UserError, match=message):
        score_translations(hypotheses, references)


def test_an_unknown_tokenizer_gets_a_hint():
    with pytest.raises(UserError, match=r"score\.tokenizer='13' is not one of auto, .*'13a'"):
        score_translations(["a"], ["a"], tokenize="13")


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("zh", "zh"), ("zh_cn", "zh"), ("zh-TW", "zh"), ("ja", "char"), ("de", "13a")],
)
def test_the_tokenizer_follows_the_language(language, tokenizer):
    assert tokenizer_for(language) == tokenizer and tokenizer in TOKENIZERS
