"""BLEU and chrF by sacreBLEU (Post 2018, arXiv 1804.08771), with the signatures that say how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from attention.errors import UserError, did_you_mean

TOKENIZERS = ("13a", "intl", "zh", "char", "none")


class Signatures(NamedTuple):
    """How scores are computed, in sacreBLEU's words."""

    bleu: str
    chrf: str


class Scores(NamedTuple):
    """Corpus scores, of 100, and how they were computed."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str


def tokenizer_for(language: str) -> str:
    """Returns sacreBLEU's tokenizer for a target language; some have no blanks between words.

    Args:
        language: its code, perhaps with a region: "zh", "zh_TW", "zh-cn".
    """
    code = language.replace("_", "-").partition("-")[0].lower()
    return {"zh": "zh", "ja": "char", "th": "char"}.get(code, "13a")


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Scores:
    """Scores detokenised text against one reference each; empty lines count like all others.

    Raises:
        UserError: the numbers of lines differ (sacreBLEU would score the shorter silently), there
            is none, or the tokenizer is unknown.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses and {len(references)} references: each line needs one"
        )
    if not references:
        raise UserError("there is no line to score")
    if tokenize not in TOKENIZERS:
        hint = did_you_mean(tokenize, TOKENIZERS)
        raise UserError(
            f"score.tokenizer={tokenize!r} is not one of auto, {', '.join(TOKENIZERS)}{hint}"
        )
    bleu, chrf = BLEU(tokenize=tokenize, lowercase=lowercase), CHRF(lowercase=lowercase)
    by_bleu = bleu.corpus_score(list(hypotheses), [list(references)])
    by_chrf = chrf.corpus_score(list(hypotheses), [list(references)])
    return Scores(
        by_bleu.score,
        by_chrf.score,
        bleu.get_signature().format(),
        chrf.get_signature().format(),
    )


def signatures(*, tokenize: str = "13a", lowercase: bool = False) -> Signatures:
    """Returns the signatures that `score_translations` with the same options gives."""
    # sacreBLEU counts the references when it scores; the lines of a split would give the same.
    scores = score_translations([""], [""], tokenize=tokenize, lowercase=lowercase)
    return Signatures(scores.bleu_signature, scores.chrf_signature)
