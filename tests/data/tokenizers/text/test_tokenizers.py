"""What all text tokenizers promise."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.data.tokenizers import text as tokenizers
from attention.data.tokenizers.special import BOS, EOS, NUM_SPECIAL, PAD, UNK, UNKNOWN_SURFACE
from attention.errors import UserError

pytestmark = pytest.mark.fast

TEXTS = [
    "A young man (the tall one) plays, isn't it?",
    "the man plays the guitar; the other man sings.",
    "Ein Mann spielt \u2013 in der Stra\u00dfe!",
] * 3
SEEN = "the man, the (young) one!"
UNSEEN = ["the \u2603 man", "\u2603\u2603", "man\u00a7(one)", "\u25a1", "zzz \u4f60\u597d, the"]

NAMES = tokenizers.names()


def build(name, texts=TEXTS, **chosen):
    return tokenizers.get(name).Tokenizer.build(texts, **{"vocab_size": 80} | chosen)


@pytest.fixture(scope="module")
def built():
    return {name: build(name) for name in NAMES}


def test_names():
    assert NAMES == ("bytes", "characters", "sentencepiece", "words")
    with pytest.raises(UserError, match=r"data\.tokenizer='sentence_piece'.*'sentencepiece'"):
        tokenizers.get("sentence_piece")


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_back(built, name):
    tokenizer = built[name]
    ids = tokenizer.encode(SEEN)
    assert ids.dtype == np.int32 and ids.ndim == 1
    assert ids.min() >= NUM_SPECIAL and ids.max() < tokenizer.size
    assert tokenizer.decode(ids) == SEEN
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("bytes", ["<0x28>", "<0x61>", "<0x20>", "<0xC3>", "<0xA4>"]),
        ("characters", ["(", "a", " ", "\u25a1"]),
        ("sentencepiece", ["\u2581", "(", "a", "\u2581", "\u25a1"]),
        ("words", [" (\uffed", "\u25a1", "\u25a1"]),
    ],
)
def test_each_id_has_a_piece(built, name, pieces):
    ids = built[name].encode("(a \u00e4")
    assert built[name].pieces(ids) == pieces and len(ids) == len(pieces)
    assert built[name].pieces([UNK]) == [UNKNOWN_SURFACE]  # which a search may find


@pytest.mark.parametrize("name", NAMES)
def test_decoding_stops_at_the_end_and_skips_padding_and_begin(built, name):
    tokenizer = built[name]
    ids = tokenizer.encode("the man").tolist()
    assert tokenizer.decode([BOS, PAD, *ids, PAD, EOS, *ids, EOS]) == "the man"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "bytes"])
@pytest.mark.parametrize("text", UNSEEN)
def test_an_unknown_character_is_no_padding_and_its_round_trip_is_stable(built, name, text):
    tokenizer = built[name]
    ids = tokenizer.encode(text)
    assert UNK in ids and PAD not in ids
    once = tokenizer.decode(ids)
    assert "\u25a1" in once
    assert tokenizer.decode(tokenizer.encode(once)) == once
    np.testing.assert_array_equal(tokenizer.encode(once), ids)


@pytest.mark.parametrize("name", NAMES)
@given(st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=100, deadline=None)
def test_any_text_is_stable_after_one_round(built, name, text):
    tokenizer = built[name]
    once = tokenizer.decode(tokenizer.encode(text))
    assert tokenizer.decode(tokenizer.encode(once)) == once


@pytest.mark.parametrize("name", NAMES)
def test_lower_case(name):
    tokenizer = build(name, lowercase=True)
    assert tokenizer.decode(tokenizer.encode("THE Man")) == "the man"


@pytest.mark.parametrize("name", NAMES)
def test_the_same_texts_give_the_same_files_and_both_sides_fit_one_folder(tmp_path, name):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        build(name).save(folder, stem="source")
        build(name, TEXTS[:1] * 2, vocab_size=60, lowercase=True).save(folder, stem="target")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()
    load = tokenizers.get(name).Tokenizer.load
    source, target = load(one, stem="source"), load(one, stem="target")
    np.testing.assert_array_equal(source.encode(SEEN), build(name).encode(SEEN))
    assert source.size == build(name).size
    assert source.decode(source.encode("The")) != "the" == target.decode(target.encode("The"))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_or_altered_is_refused(built, tmp_path, name):
    load = tokenizers.get(name).Tokenizer.load
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        load(tmp_path)
    built[name].save(tmp_path)
    load(tmp_path)
    for path in list(tmp_path.iterdir()):
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"false", b"true") if path.suffix == ".json" else whole[:-9])
        assert path.read_bytes() != whole
        with pytest.raises(UserError, match=f"'.*{path.name}'.*damaged or not the one"):
            load(tmp_path)
        path.write_bytes(whole)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        load(tmp_path)


def test_a_file_of_another_tokenizer_is_refused(built, tmp_path):
    built["bytes"].save(tmp_path)
    with pytest.raises(UserError, match=r"data\.tokenizer='bytes', not of 'words'"):
        tokenizers.get("words").Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps([1]))
    with pytest.raises(UserError, match="damaged"):
        tokenizers.get("words").Tokenizer.load(tmp_path)


@pytest.mark.parametrize("name", ["characters", "words", "sentencepiece"])
def test_texts_and_sizes_that_leave_nothing_are_named(name):
    for texts in ([], [""]):
        with pytest.raises(UserError, match="texts of the training split are blank"):
            build(name, texts)
    with pytest.raises(UserError, match=r"data\.vocab_size=4 must be above 4"):
        build(name, vocab_size=4)
