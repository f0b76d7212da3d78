"""Bytes, characters, and words with their punctuation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.data.tokenizers import text as tokenizers
from attention.data.tokenizers.special import NUM_SPECIAL, UNK
from attention.data.tokenizers.text.words import join_words, split_words
from attention.errors import UserError

pytestmark = pytest.mark.fast

Bytes = tokenizers.get("bytes").Tokenizer
Characters = tokenizers.get("characters").Tokenizer
Words = tokenizers.get("words").Tokenizer


def test_bytes_are_utf8_and_broken_ones_are_replaced():
    tokenizer = Bytes.build(["never read"], vocab_size=10)
    assert tokenizer.size == 260
    assert tokenizer.encode("a\u00df").tolist() == [97 + 4, 0xC3 + 4, 0x9F + 4]
    assert tokenizer.decode([97 + 4, 0xC3 + 4, 98 + 4]) == "a\ufffdb"
    text = "\u2028\x85\0 \U0001f469\u200d\U0001f52c"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_frequent_characters_come_first_and_the_rest_is_unknown():
    tokenizer = Characters.build(["abb ccc", "d"], vocab_size=NUM_SPECIAL + 3)
    assert tokenizer.characters == "cb "
    assert tokenizer.encode("cb a").tolist() == [4, 5, 6, UNK]
    assert tokenizer.decode(tokenizer.encode("ca  b")) == "c\u25a1  b"


def test_frequent_words_come_first_and_rare_ones_are_unknown():
    texts = ["b a a", "b, c"]
    assert Words.build(texts, vocab_size=100).words == ("a", "b", "c", "\uffed, ")
    assert Words.build(texts, vocab_size=6).words == ("a", "b")
    rare = Words.build(texts, vocab_size=100, min_count=2)
    assert rare.words == ("a", "b")
    assert rare.decode(rare.encode("a c, b")) == "a \u25a1 \u25a1 b"
    with pytest.raises(UserError, match="seen min_count=3 times"):
        Words.build(texts, vocab_size=100, min_count=3)


def test_a_mark_knows_what_it_touches():
    assert list(split_words("Don't (a, b) ...")) == [
        *("Don", "\uffed'\uffed", "t", " (\uffed", "a", "\uffed, ", "b", "\uffed) "),
        *(" .\uffed", "\uffed.\uffed", "\uffed. "),
    ]
    assert list(split_words("5\u20ac")) == ["5", "\uffed\u20ac "]
    # Letters with their combining marks are one word; an underscore is punctuation.
    assert list(split_words("\u0928\u092e\u0938\u094d\u0924\u0947 a_b")) == [
        "\u0928\u092e\u0938\u094d\u0924\u0947",
        *("a", "\uffed_\uffed", "b"),
    ]


@given(st.text(st.sampled_from("ab ,.\uffed'_\t\u2028\u0301\u25a1")))
@settings(max_examples=300, deadline=None)
def test_a_text_is_put_together_again_but_for_whitespace(text):
    assert join_words(split_words(text)) == " ".join(text.split())
