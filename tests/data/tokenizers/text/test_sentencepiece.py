"""SentencePiece: its ids, its limits, its silence, and segmentations at random."""

from __future__ import annotations

import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from attention.data.tokenizers.special import UNK
from attention.data.tokenizers.text import sentencepiece
from attention.data.tokenizers.text.sentencepiece import Tokenizer
from attention.errors import UserError

pytestmark = pytest.mark.fast

TEXTS = [
    "a young man with a guitar plays in the street",
    "two young women are playing the guitar",
    "the women play with a young dog in the grass",
] * 4


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_small_corpus_trains_and_its_size_is_said(kind, caplog, capfd):
    texts = [f"the {word} cat sat" for word in ("big", "old", "red", "shy")] * 5
    with caplog.at_level(logging.WARNING):
        tokenizer = Tokenizer.build(texts, vocab_size=16_000, kind=kind)
    assert caplog.messages == [
        f"the training texts allow a vocabulary of {tokenizer.size}, not of data.vocab_size=16,000"
    ]
    assert 4 < tokenizer.size < 200
    assert capfd.readouterr() == ("", "")


def test_a_size_that_is_reached_needs_no_word(caplog):
    with caplog.at_level(logging.WARNING):
        assert Tokenizer.build(TEXTS, vocab_size=28).size == 28
    assert caplog.messages == []


def test_special_ids_have_their_places():
    tokenizer = Tokenizer.build(TEXTS, vocab_size=40)
    pieces = [tokenizer._processor.id_to_piece(i) for i in range(4)]
    assert pieces == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(tokenizer.encode("<s> <pad>")) > 2  # text never becomes a special id


@pytest.mark.parametrize("blank", ["", " "])
def test_a_long_text_is_no_reason_to_leave_it_out(blank, caplog):
    words = random.Random(0).choices(["guitar", "street", "dog", "plays"], k=2000)
    with caplog.at_level(logging.WARNING):
        tokenizer = Tokenizer.build([blank.join(words)], vocab_size=18)
    assert UNK not in tokenizer.encode("guitars")
    assert not any("bytes" in message for message in caplog.messages)


def test_texts_over_the_limit_are_counted_or_refused(caplog, monkeypatch):
    monkeypatch.setattr(sentencepiece, "MAX_TEXT_BYTES", 100)
    long = "\u00e4 " * 40  # 80 characters, 120 bytes
    with caplog.at_level(logging.WARNING):
        tokenizer = Tokenizer.build([*TEXTS, long], vocab_size=40)
    assert caplog.messages[0] == (
        "1 of 13 texts are over 100 bytes: the tokenizer is trained without them"
    )
    assert UNK in tokenizer.encode("\u00e4")
    with pytest.raises(UserError, match=r"all 2 texts .* over 100 bytes; break them") as caught:
        Tokenizer.build([long, long], vocab_size=40)
    assert "\n" not in str(caught.value)


def test_no_text_is_dropped_for_a_reserved_character():
    tokenizer = Tokenizer.build(["quiz\u2585", "jump\0", *TEXTS], vocab_size=60)
    assert UNK not in tokenizer.encode("quiz jump")


def test_a_vocabulary_smaller_than_the_alphabet_is_named():
    with pytest.raises(UserError, match=r"data\.vocab_size=8 is too small: the 5 .* at least 9"):
        Tokenizer.build(["abc d"], vocab_size=8)


def test_wrong_options_are_named():
    for options, message in (
        ({"kind": "word"}, "'word' must be one of unigram, bpe"),
        ({"normalization": "nfd"}, "'nfd' must be one of nmt_nfkc, identity"),
        ({"character_coverage": 0.0}, "character_coverage=0.0"),
    ):
        with pytest.raises(UserError, match=message):
            Tokenizer.build(TEXTS, vocab_size=40, **options)


def test_normalization():
    texts = [*TEXTS, "\ufb01sh  and\ttea fish"]
    plain = Tokenizer.build(texts, vocab_size=80)
    assert plain.decode(plain.encode("  \ufb01sh  and\ttea ")) == "fish and tea"
    exact = Tokenizer.build(texts, vocab_size=80, normalization="identity")
    for text in ("  \ufb01sh  and\ttea ", "a\tp", " "):
        assert exact.decode(exact.encode(text)) == text


def test_of_a_large_alphabet_the_rarest_stay_unknown():
    common = "".join(chr(0x4E00 + i) for i in range(900))
    rare = "".join(chr(0x5E00 + i) for i in range(200))
    texts = [*[common[i : i + 30] for i in range(0, 900, 30)] * 500, rare[:100], rare[100:]]
    tokenizer = Tokenizer.build(texts, vocab_size=2000)
    assert UNK not in tokenizer.encode(common[0])
    assert UNK in tokenizer.encode(rare)
    whole = Tokenizer.build(texts, vocab_size=2000, character_coverage=1.0)
    assert UNK not in whole.encode(rare)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_segmentations_at_random_follow_their_seed_alone(kind, monkeypatch):
    tokenizer = Tokenizer.build(TEXTS, vocab_size=60, kind=kind)
    text = TEXTS[0]
    best = tokenizer.encode(text).tolist()

    def sample(seed):
        return tuple(tokenizer.encode(text, sample=seed, alpha=0.3).tolist())

    drawn = [sample(seed) for seed in range(40)]
    assert len(set(drawn)) > 5
    assert all(tokenizer.decode(ids) == text for ids in drawn)
    seed_generator = sentencepiece.library.set_random_generator_seed

    def slow(seed):
        seed_generator(seed)
        time.sleep(0.002)  # another thread's turn, before this seed is used

    monkeypatch.setattr(sentencepiece.library, "set_random_generator_seed", slow)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sample, range(40))) == drawn
    assert sample(2**63 + 3) == sample(2**63 + 3)
    assert tokenizer.encode(text, sample=3).tolist() == best
    assert tokenizer.encode(text).tolist() == best


def test_a_limit_that_is_not_reached_changes_no_byte_and_one_that_is_is_said(caplog):
    texts = [f"{a} {b} cat" for a in "abcdefgh" for b in ("big", "old", "red", "shy")]
    with caplog.at_level(logging.INFO):
        whole, same = (Tokenizer.build(texts, vocab_size=30, max_texts=n) for n in (None, 32))
        assert same._model == whole._model
        assert not any("drawn" in message for message in caplog.messages)
        some, again = (Tokenizer.build(texts, vocab_size=30, max_texts=9) for _ in range(2))
    assert "trained on 9 of 32 texts, drawn at random (data.tokenizer_texts)" in caplog.text
    assert some._model == again._model != whole._model
