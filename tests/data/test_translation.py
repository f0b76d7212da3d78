"""Pairs of sentences: parallel files, directions, and the splits that are made of them."""

from __future__ import annotations

import json
import logging
from collections import Counter

import pytest

from attention.data import load_dataset
from attention.data.splitting import split_of
from attention.data.translation import (
    Direction,
    Translations,
    choose_direction,
    load_unsplit,
    read_examples,
)
from attention.errors import UserError

TASK = "translation"


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def texts(examples):
    return [(e["source"], e["target"], e["line"]) for e in examples]


def test_parallel_files(write):
    paths = {
        "train_source": write("t.en", "a\n\nc\nd\n \n"),
        "train_target": write("t.de", "A\nB\n\t\nD\n\n"),
        "dev_source": write("d.en", "a\n\nc\n"),
        "dev_target": write("d.de", "A\nB\n\n"),
    }
    data = load_dataset("files", task=TASK, paths=paths)
    assert list(data.splits) == ["train", "dev"]
    assert texts(data.split("train")) == [("a", "A", 1), ("d", "D", 4)]
    assert data.split("train").counts == {
        "pairs": 2,
        "blank_sources": 0,
        "blank_targets": 0,
        "skipped_pairs_with_a_blank_side": 3,
    }
    # In evaluation no line is dropped.
    assert texts(data.split("dev")) == [("a", "A", 1), ("", "B", 2), ("c", "", 3)]
    assert data.split("dev").counts == {"pairs": 3, "blank_sources": 1, "blank_targets": 1}
    assert data.split("dev")[0]["file"] == paths["dev_source"]


@pytest.mark.fast
def test_languages_name_what_files_hold_and_change_nothing_of_it(write):
    paths = {"train_source": write("t.en", "a\n"), "train_target": write("t.zh", "A\n")}
    plain = load_dataset("files", task=TASK, paths=paths)
    options = {"source_language": "en", "target_language": "zh"}
    named = load_dataset("files", task=TASK, paths=paths, options=options)
    assert texts(named.split("train")) == texts(plain.split("train")) == [("a", "A", 1)]
    assert named.split("train").content_hash == plain.split("train").content_hash
    with pytest.raises(UserError, match=r"data\.distance=3 means nothing to dataset=files"):
        load_dataset("files", task=TASK, paths=paths, options={"distance": 3})


@pytest.mark.fast
def test_only_line_feeds_end_a_line(write, caplog):
    source = write(
        "x.en", b"\xef\xbb\xbfa\xe2\x80\xa8b\r\nc\rd\x85\x1c\x0b\r\n".replace(b"\x85", b"")
    )
    target = write("x.de", "A\nC\n")
    with caplog.at_level(logging.INFO):
        examples = read_examples(source, target)
    assert texts(examples) == [("a\u2028b", "A", 1), ("c\rd\x1c\x0b", "C", 2)]
    assert caplog.messages == [f"read {source}: 2 pairs"]
    assert texts(read_examples(source)) == [("a\u2028b", "", 1), ("c\rd\x1c\x0b", "", 2)]


@pytest.mark.fast
def test_a_last_line_needs_no_end_and_an_empty_one_is_no_line(write):
    source, target = write("x.en", "a\nb"), write("x.de", "A\nB\n")
    assert len(read_examples(source, target)) == 2


@pytest.mark.fast
@pytest.mark.parametrize(("source", "target"), [("a\nb\nc\n", "A\nB\n"), ("a\nb\n", "A\nB\nC")])
def test_different_numbers_of_lines_name_both_files(write, source, target):
    one, other = write("x.en", source), write("x.de", target)
    lines = len(source.split()), len(target.split())
    message = f"^{one} has {lines[0]} lines and {other} has {lines[1]}: line i of one"
    with pytest.raises(UserError, match=message):
        read_examples(one, other)
    with pytest.raises(UserError, match=message):
        load_dataset("files", task=TASK, paths={"train_source": one, "train_target": other})


@pytest.mark.fast
def test_files_that_are_wrong_are_named(write):
    empty, some, latin = write("empty", ""), write("some", "a\n"), write("latin", b"a\n\xe4\n")
    with pytest.raises(UserError, match="empty: holds no line"):
        read_examples(empty, empty)
    with pytest.raises(UserError, match=r"latin:2: expected UTF-8"):
        read_examples(latin, latin)
    with pytest.raises(UserError, match="cannot read '/gone'"):
        read_examples("/gone", some)
    blank = write("blank", "\n")
    with pytest.raises(UserError, match=r"some and .*blank: hold no pair"):
        load_dataset("files", task=TASK, paths={"train_source": some, "train_target": blank})


@pytest.mark.fast
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "needs data.train_source_path and data.train_target_path"),
        (("train_source",), "needs data.train_target_path"),
        (("train_source", "train_target", "dev_target"), "needs data.eval_source_path"),
        (("train_source", "train_target", "test_source"), "needs data.test_target_path"),
    ],
)
def test_a_missing_side_is_named_by_its_key(write, given, message):
    path = write("x", "a\n")
    with pytest.raises(UserError, match=message):
        load_dataset("files", task=TASK, paths=dict.fromkeys(given, path))
    with pytest.raises(UserError, match=r"data\.train_target_path='gone' does not exist"):
        load_dataset("files", task=TASK, paths={"train_source": path, "train_target": "gone"})


@pytest.mark.fast
def test_directions():
    def choose(source=None, target=None, *, languages=("de", "en"), default=("en", "de")):
        options = {"source_language": source, "target_language": target}
        return choose_direction("x", languages, default=default, options=options)

    assert choose() == Direction("en", "de")
    assert choose(source="de") == choose(target="en") == choose("de", "en") == ("de", "en")
    assert choose(source="en", default=None) == ("en", "de")
    three = ("de", "en", "fr")
    assert choose("fr", "de", languages=three, default=None) == ("fr", "de")
    for arguments, languages, message in (
        (("xx", None), ("de", "en"), r"data\.source_language='xx': data set 'x' has de, en"),
        ((None, "DE"), ("de", "en"), r"data\.target_language='DE'"),
        (("de", "de"), ("de", "en"), "are both 'de'"),
        ((None, None), three, "has de, en, fr: set data.source_language and"),
        (("fr", None), three, "set data.source_language and data.target_language"),
    ):
        with pytest.raises(UserError, match=message):
            choose(*arguments, languages=languages, default=None)


def test_duplicates_of_either_side_are_dropped_before_splitting(write, tmp_path):
    write("file", "never read as such")
    pairs = [(f"z{i}", f"e{i}") for i in range(100)]
    extra = [("z5", "other"), ("other", "e7"), ("z9", "e9"), ("fresh", "PLACEHOLDER")]
    rows = [Translations({"zh": z, "en": e}, i) for i, (z, e) in enumerate([*pairs, *extra[:3]])]
    rows.append(Translations({"zh": "fresh", "en": "PLACEHOLDER"}, 103, "skipped_placeholders"))
    # What a row that is left out says is not taken.
    rows.append(Translations({"zh": "fresh", "en": "really"}, 104))

    def load(**options):
        return load_unsplit(
            "made_up",
            tmp_path / "file",
            lambda path: iter(rows),
            languages=("zh", "en"),
            options=options,
            version="1",
        )

    data = load()
    total = sum((Counter(split.counts) for split in data.splits.values()), Counter())
    assert total == {"pairs": 101, "skipped_duplicates": 3, "skipped_placeholders": 1}
    for name, split in data.splits.items():
        assert all(split_of(e["source"]) == name for e in split)
    assert data.direction == ("zh", "en")
    turned = load(source_language="en")
    assert turned.direction == ("en", "zh")
    for name, split in data.splits.items():
        swapped = [(target, source, line) for source, target, line in texts(turned.split(name))]
        assert texts(split) == swapped
        assert split.content_hash != turned.split(name).content_hash


def test_short_chinese_sentences():
    try:
        data = load_dataset("hsk_zh_en", task=TASK)
    except UserError as error:
        assert "pip install -e '.[data]'" in str(error)
        pytest.skip("the extra `data` is not installed")
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 3346, "dev": 424, "test": 460}
    counts = sum((Counter(split.counts) for split in data.splits.values()), Counter())
    assert counts == {"pairs": 4230, "skipped_duplicates": 44, "skipped_placeholders": 80}
    first = data.split("train")[0]
    assert (first["source"], first["target"]) == ("老师，您好！", "Hello, teacher!")
    for side in ("source", "target"):
        every = [e[side] for split in data.splits.values() for e in split]
        assert len(set(every)) == 4230
        assert not any("placeholder" in text for text in every)


@pytest.mark.fast
def test_a_package_that_is_missing_or_another_is_named(monkeypatch, tmp_path):
    module = "attention.data.sources.hsk_zh_en"
    monkeypatch.setattr(f"{module}.PACKAGE", "no-such-package-here")
    with pytest.raises(UserError, match="'hsk_zh_en' needs its package: pip install no-such"):
        load_dataset("hsk_zh_en", task=TASK)
    path = tmp_path / "sentences.json"
    path.write_text(json.dumps([{"chinese": "a"}]))
    monkeypatch.setattr(f"{module}.package_file", lambda *args, **kwargs: path)
    with pytest.raises(UserError, match=r"sentences\.json: not the file of .*KeyError"):
        load_dataset("hsk_zh_en", task=TASK)


@pytest.mark.slow
def test_multi30k_as_its_users_have_it(shared_data):
    folder = shared_data / "multi30k_en_de"
    names = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
    paths = {
        f"{split}_{side}": str(folder / f"{name}.{language}")
        for split, name in names.items()
        for side, language in (("source", "en"), ("target", "de"))
    }
    data = load_dataset("files", task=TASK, paths=paths)
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 29_000, "dev": 1014, "test": 1000}
    assert (
        sum(
            split.counts.get("skipped_pairs_with_a_blank_side", 0) for split in data.splits.values()
        )
        == 0
    )
    example = data.split("test")[999]
    assert example["line"] == 1000 and example["file"] == paths["test_source"]
    assert example["source"] and example["target"]
