"""Words and their characters as ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.data.tokenizers.words import (
    BEGIN,
    END,
    FIRST_CHAR,
    FIRST_WORD,
    PAD,
    UNKNOWN,
    WordTokenizer,
)
from attention.errors import UserError

pytestmark = pytest.mark.fast

SENTENCES = [["the", "cat", "The"], ["the", "dog"], ["cat", "the"]]


def build(sentences=SENTENCES, **settings):
    chosen = {"min_count": 1, "max_word_length": 6} | settings
    return WordTokenizer.build(sentences, **chosen)


def test_frequent_words_come_first_and_ties_in_order():
    tokenizer = build()
    assert tokenizer.words == ("the", "cat", "The", "dog")
    assert tokenizer.num_words == FIRST_WORD + 4
    assert tokenizer.encode(["dog", "the", "bird"])["words"].tolist() == [5, 2, UNKNOWN]


def test_rare_words_are_unknown_but_keep_their_spelling():
    tokenizer = build(min_count=2)
    assert tokenizer.words == ("the", "cat")
    encoded = tokenizer.encode(["dog", "god"])
    assert encoded["words"].tolist() == [UNKNOWN, UNKNOWN]
    first, second = encoded["chars"]
    assert first[1:4].tolist() == second[3:0:-1].tolist()
    assert UNKNOWN not in first
    assert tokenizer.count_unknown_words(["dog", "the", "x"]) == 2


def test_lower_case_is_for_words_alone():
    tokenizer = build(lowercase=True, min_count=4)
    assert tokenizer.words == ("the",)
    encoded = tokenizer.encode(["The", "the"])
    assert encoded["words"].tolist() == [FIRST_WORD, FIRST_WORD]
    assert (encoded["chars"][0] != encoded["chars"][1]).any()


def test_characters_stand_between_begin_and_end():
    tokenizer = build([["ab"]])
    assert tokenizer.num_chars == FIRST_CHAR + 2
    assert tokenizer.char_width == 8
    encoded = tokenizer.encode(["ba", "a?", ""])
    assert encoded["chars"].tolist() == [
        [BEGIN, FIRST_CHAR + 1, FIRST_CHAR, END, PAD, PAD, PAD, PAD],
        [BEGIN, FIRST_CHAR, UNKNOWN, END, PAD, PAD, PAD, PAD],
        [BEGIN, END, PAD, PAD, PAD, PAD, PAD, PAD],
    ]
    assert encoded["chars"].dtype == encoded["words"].dtype == np.int32


def test_a_long_word_keeps_its_head_and_its_tail():
    tokenizer = build([["abcdefgh"]], max_word_length=5)
    long, joined = tokenizer.encode(["abcdefgh", "abcgh"])["chars"]
    assert long.tolist() == joined.tolist()
    assert len(long) == 7
    assert tokenizer.count_long_words(["abcdefgh", "abcde"]) == 1
    with pytest.raises(UserError, match=r"data\.max_word_length=1"):
        build(max_word_length=1)


def test_no_word_gives_no_row():
    encoded = build().encode([])
    assert encoded["words"].shape == (0,)
    assert encoded["chars"].shape == (0, 8)


@given(st.lists(st.lists(st.text(st.characters(), min_size=1)), max_size=5))
@settings(max_examples=40, deadline=None)
def test_it_comes_back_from_its_file_whatever_the_unicode(tmp_path_factory, sentences):
    folder = tmp_path_factory.mktemp("tokenizer")
    sentences = [*sentences, ["\u2028", "\x85", "\ud800", "e\u0301", '"\\', "👩\u200d🔬"]]
    tokenizer = build(sentences, lowercase=True, max_word_length=4)
    tokenizer.save(folder)
    loaded = WordTokenizer.load(folder)
    assert loaded.fingerprint == tokenizer.fingerprint
    for words in sentences:
        for key, array in tokenizer.encode(words).items():
            np.testing.assert_array_equal(loaded.encode(words)[key], array)


def test_the_fingerprint_tells_everything_that_decides_ids():
    others = [
        build(),
        build(min_count=2),
        build(lowercase=True),
        build(max_word_length=7),
        build([*SENTENCES, ["dog", "dog"]]),
    ]
    assert len({tokenizer.fingerprint for tokenizer in others}) == len(others)
    assert build().fingerprint == build().fingerprint


def test_the_order_of_sentences_does_not_matter():
    assert build(SENTENCES[::-1]).fingerprint == build().fingerprint


def test_what_is_missing_or_altered_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"words\.json"):
        WordTokenizer.load(tmp_path)
    build().save(tmp_path)
    path = tmp_path / "words.json"
    whole = path.read_text()
    path.write_text(whole.replace('"dog"', '"god"'))
    assert path.read_text() != whole
    with pytest.raises(UserError, match=r"'.*words\.json': it is damaged or not the one"):
        WordTokenizer.load(tmp_path)
