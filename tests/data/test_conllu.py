"""CoNLL-U as people really have it, and what cannot be read."""

from __future__ import annotations

import io
import time

import pytest

from attention.data.conllu import format_conllu, read_conllu
from attention.errors import UserError

pytestmark = pytest.mark.fast


def row(identifier: str, form: str, upos: str = "NOUN", xpos: str = "NN") -> str:
    return f"{identifier}\t{form}\t_\t{upos}\t{xpos}\t_\t_\t_\t_\t_\n"


def read(text: str | bytes) -> list:
    data = text if isinstance(text, bytes) else text.encode()
    return list(read_conllu(io.BytesIO(data), name="x.conllu"))


def words(text: str | bytes) -> list[list[str]]:
    return [sentence.words for sentence in read(text)]


def error(text: str | bytes) -> str:
    with pytest.raises(UserError) as caught:
        read(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


TWO = (
    "# sent_id = a\n"
    + row("1", "Dogs", "NOUN", "NNS")
    + row("2", "bark", "VERB", "VBP")
    + "\n# sent_id = b\n"
    + row("1", "Stop", "VERB", "VB")
    + "\n"
)


def test_reads_words_tags_and_where_they_stand():
    first, second = read(TWO)
    assert (first.words, first.upos, first.xpos) == (
        ["Dogs", "bark"],
        ["NOUN", "VERB"],
        ["NNS", "VBP"],
    )
    assert (first.line, second.line) == (2, 6)
    assert first.file == "x.conllu"


def test_ranges_and_empty_nodes_are_no_words():
    text = (
        row("0.1", "zero")
        + row("1-2", "don't", "_", "_")
        + row("1", "do", "AUX")
        + row("2", "n't", "PART")
        + row("2.1", "gone")
        + row("3", "go", "VERB")
    )
    (sentence,) = read(text)
    assert sentence.words == ["do", "n't", "go"]
    assert sentence.upos == ["AUX", "PART", "VERB"]
    assert (sentence.num_ranges, sentence.num_empty_nodes) == (1, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\n\n" + text.replace("\n\n", "\n\n\n  \n") + "\n\n",
        lambda text: text.replace("\n\n#", "\n#"),  # no blank line between two sentences
        lambda text: text.replace("\n\n# sent_id = b", ""),  # nor a comment
        lambda text: text.replace("# sent_id = b", "# newdoc id = d\n# sent_id = b\n# text = x"),
    ],
    ids=["no-final-blank", "crlf", "bom", "blank-lines", "glued", "glued-bare", "comments"],
)
def test_the_same_sentences_however_the_lines_are_set(change):
    expected = [(s.words, s.upos, s.xpos) for s in read(TWO)]
    assert [(s.words, s.upos, s.xpos) for s in read(change(TWO))] == expected


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r"])
def test_a_form_may_hold_what_others_take_for_a_line_end(separator):
    form = f"a{separator}b"
    assert words(row("1", form) + row("2", "c")) == [[form, "c"]]


def test_forms_may_hold_spaces_and_underscores_and_hashes():
    assert words(row("1", "20 000") + row("2", "_") + row("3", "#")) == [["20 000", "_", "#"]]


def test_comments_of_glued_sentences_go_with_the_second():
    first, second = read(TWO.replace("\n\n#", "\n#"))
    assert [line for line in first.lines if line.startswith("#")] == ["# sent_id = a"]
    assert [line for line in second.lines if line.startswith("#")] == ["# sent_id = b"]


def test_a_range_may_open_a_glued_sentence():
    text = row("1", "a") + row("1-2", "bc") + row("1", "b") + row("2", "c")
    assert words(text) == [["a"], ["b", "c"]]


def test_a_comment_between_words_stays_in_its_sentence():
    assert words(row("1", "a") + "# note\n" + row("2", "b")) == [["a", "b"]]


def test_comments_alone_are_a_block_without_words():
    sentences = read("# a file of\n\n" + TWO)
    assert [len(s.words) for s in sentences] == [0, 2, 1]


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        (row("1", "a") + "2 b _ NOUN NN _ _ _ _ _\n", 2, ["10 tab-separated columns", "got 1"]),
        (row("1", "a") + "2\tb\t_\tNOUN\n", 2, ["10 tab-separated columns", "got 4"]),
        (row("1", "a\nb"), 1, ["10 tab-separated columns", "got 2"]),
        (row("1", "a").rstrip("\n") + "\t_\n", 1, ["10 tab-separated columns", "got 11"]),
        (row("1", "a") + row("2", ""), 2, ["FORM of word 2 is blank"]),
        (row("1", "a") + row("2", "  "), 2, ["FORM of word 2 is blank"]),
        (row("1", "a", upos=""), 1, ["UPOS of word 1 is blank"]),
        (row("1", "a") + row("3", "b"), 2, ["expected word id 2", "got 3"]),
        (row("2", "a"), 1, ["expected word id 1", "got 2"]),
        (row("a", "a"), 1, ["expected an id", "'a'"]),
        (row("١", "a"), 1, ["expected an id"]),
        (row("9" * 5000, "a"), 1, ["expected an id"]),
        (row("1-2", "ab") + row("2", "b"), 2, ["range 1-2", "lacks its word 1", "id 2"]),
        (row("1-2", "ab") + row("1", "a") + "\n", 1, ["range 1-2", "lacks its word 2"]),
        (row("1-2", "ab") + row("1", "a"), 1, ["range 1-2", "lacks its word 2"]),
        (row("1-2147483647", "ab") + row("1", "a"), 1, ["range 1-2147483647", "word 2"]),
        (row("1", "a") + row("2-1", "ab"), 2, ["range 2-1", "word 2"]),
        (row("1", "a") + row("7-8", "ab") + row("2", "b"), 2, ["range 7-8", "word 2"]),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text, line, parts):
    start = time.monotonic()
    message = error(text)
    assert time.monotonic() - start < 5  # a range's end must not decide how much is allocated
    assert message.startswith(f"x.conllu:{line}: ")
    assert all(part in message for part in parts), message


def test_bytes_that_are_no_utf8_are_named_with_their_line():
    assert error(row("1", "a").encode() + row("2", "é").encode("latin-1")).startswith(
        "x.conllu:2: expected UTF-8"
    )


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.conllu"):
        list(read_conllu(tmp_path / "gone.conllu"))
    with pytest.raises(UserError, match="directory"):
        list(read_conllu(tmp_path))


def test_a_path_and_a_text_stream_are_read_alike(tmp_path):
    path = tmp_path / "two.conllu"
    path.write_text(TWO)
    assert [s.words for s in read_conllu(path)] == words(TWO)
    assert [s.words for s in read_conllu(io.StringIO(TWO))] == words(TWO)
    stdin = io.TextIOWrapper(io.BytesIO(row("1", "a\rb").encode()))
    assert [s.words for s in read_conllu(stdin)] == [["a\rb"]]


def test_writing_replaces_the_tag_column_only():
    text = (
        "# text = don't\n"
        + row("1-2", "don't", "_", "_")
        + row("1", "do", "X")
        + row("2", "n't", "X")
        + row("2.1", "gone", "VERB")
    )
    (sentence,) = read(text)
    written = format_conllu(sentence, ["AUX", "PART"])
    assert written == text.replace("\tdo\t_\tX", "\tdo\t_\tAUX").replace("\tX\t", "\tPART\t") + "\n"
    assert format_conllu(sentence, sentence.upos) == text + "\n"
    assert "\tX\tVBP\t" in format_conllu(sentence, ["VBP", "RB"], column="xpos")
    with pytest.raises(ValueError, match="1 tags for 2 words"):
        format_conllu(sentence, ["AUX"])
