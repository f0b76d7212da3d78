"""Data sets by name, and what they hold."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from attention.data import load_dataset, sources
from attention.data.tagging import read_examples
from attention.errors import UserError

TASK = "pos_tagging"


@pytest.mark.fast
def test_every_source_says_what_it_is_for():
    assert set(sources.names()) >= {"turkish_treebank", "files", "en_ewt"}
    for name in sources.names():
        source = sources.get(name)
        assert source.TASKS and source.__doc__
        assert name in sources.names(source.TASKS[0])
    assert sources.names("no_task") == ()


@pytest.mark.fast
def test_a_wrong_name_gets_the_nearest_and_all():
    with pytest.raises(UserError, match=r"did you mean 'turkish_treebank'.*en_ewt, files"):
        load_dataset("turkish_treebnk", task=TASK)


@pytest.mark.fast
def test_a_data_set_of_another_task_is_refused(monkeypatch):
    monkeypatch.setattr(sources.get("en_ewt"), "TASKS", ("translation",))
    with pytest.raises(UserError, match="'en_ewt' is for translation, not for pos_tagging"):
        load_dataset("en_ewt", task=TASK)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({}, "data.train_path"),
        ({"train": None, "dev": "x"}, "data.train_path"),
        ({"train": "gone.conllu"}, r"data.train_path='gone.conllu' does not exist"),
        ({"train": "."}, r"data.train_path='.' is not a file"),
    ],
)
def test_wrong_paths_are_named_by_their_key(paths, message):
    with pytest.raises(UserError, match=message):
        load_dataset("files", task=TASK, paths=paths)


def test_files(tmp_path, conllu):
    train, dev = tmp_path / "train.conllu", tmp_path / "dev.conllu"
    train.write_text("\n" + conllu("the/DET cat/NOUN", "sat/VERB"))
    dev.write_text(conllu("a/_"))
    data = load_dataset("files", task=TASK, paths={"train": str(train), "dev": str(dev)})
    assert list(data.splits) == ["train", "dev"]
    split = data.split("train")
    assert split[0] == {
        "words": ["the", "cat"],
        "upos": ["DET", "NOUN"],
        "xpos": ["det", "noun"],
        "line": 2,
        "file": str(train),
    }
    assert [e["words"] for e in split] == [["the", "cat"], ["sat"]]
    assert (split[-1], split[-2]) == (split[1], split[0])
    assert split[0:2] == list(split)
    with pytest.raises(IndexError):
        split[2]
    assert data.split("dev")[0]["upos"] == ["_"]
    with pytest.raises(UserError, match=r"no split 'test'.*it has: train, dev"):
        data.split("test")


def test_odd_rows_are_counted(tmp_path, conllu):
    path = tmp_path / "train.conllu"
    odd = conllu("do/AUX n't/PART").replace("2\tn't", "1.1\tx" + "\t_" * 8 + "\n2\tn't")
    path.write_text("# only comments\n\n1-2\tdon't" + "\t_" * 8 + "\n" + odd)
    split = load_dataset("files", task=TASK, paths={"train": str(path)}).split("train")
    assert [e["words"] for e in split] == [["do", "n't"]]
    assert split.counts == {
        "sentences": 1,
        "words": 2,
        "unlabelled_words": 0,
        "skipped_ranges": 1,
        "skipped_empty_nodes": 1,
        "skipped_blocks_without_words": 1,
    }


def test_the_default_data_set():
    data = load_dataset("turkish_treebank", task=TASK)
    sizes = {name: len(split) for name, split in data.splits.items()}
    assert sizes == {"train": 3881, "dev": 485, "test": 485}
    assert sum(split.counts["words"] for split in data.splits.values()) == 81_370
    assert len({split.content_hash for split in data.splits.values()}) == 3
    tags = Counter(tag for example in data.split("train") for tag in example["upos"])
    assert len(tags) == 14
    # Sentence 8 of the first file is the first of dev, sentence 9 the first of test.
    lines = [data.split(name)[i]["line"] for name, i in (("train", 7), ("dev", 0), ("test", 0))]
    assert lines == sorted(lines)
    assert data.split("train")[8]["line"] > lines[2]
    assert data.split("dev")[484]["file"].endswith("wiki.conllu")


@pytest.mark.fast
def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(sources.get("turkish_treebank"), "PACKAGE", "no-such-package-here")
    with pytest.raises(UserError, match="pip install no-such-package-here"):
        load_dataset("turkish_treebank", task=TASK)


DUMMY = '''"""Two sentences of our own."""

from attention.data.tagging import ConlluFiles, load_conllu
from pathlib import Path

TASKS = ("pos_tagging",)


def load(*, task, paths, options):
    file = Path(__file__).with_suffix(".conllu")
    return load_conllu("dummy", {"train": ConlluFiles((file,))}, version="1")
'''


def test_one_file_adds_a_data_set(tmp_path, monkeypatch, conllu):
    (tmp_path / "dummy.py").write_text(DUMMY)
    (tmp_path / "dummy.conllu").write_text(conllu("a/DET b/NOUN", "c/X"))
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    assert "dummy" in sources.names(TASK)
    assert len(load_dataset("dummy", task=TASK).split("train")) == 2
    with pytest.raises(UserError, match="did you mean 'dummy'"):
        load_dataset("dumy", task=TASK)


@pytest.mark.fast
def test_a_file_is_read_without_being_prepared(tmp_path, cache, conllu, caplog):
    path = tmp_path / "x.conllu"
    path.write_text("1-2\tab" + "\t_" * 8 + "\n" + conllu("a/DET b/NOUN", "c/X"))
    with caplog.at_level(logging.INFO):
        examples = read_examples(path)
    assert [(e["words"], e["line"]) for e in examples] == [(["a", "b"], 1), (["c"], 5)]
    assert caplog.messages == [f"read {path}: 2 sentences 3 words (1 skipped ranges)"]
    assert not cache.exists()
    path.write_text("# nothing\n")
    with pytest.raises(UserError, match=r"x\.conllu: holds no sentence"):
        read_examples(path)


@pytest.mark.slow
def test_ewt_as_its_users_have_it(shared_data):
    folder = shared_data / "en_ewt"
    paths = {name: str(folder / f"en_ewt-ud-{name}.conllu") for name in ("train", "dev")}
    data = load_dataset("files", task=TASK, paths=paths)
    counts = {
        name: (split.counts["sentences"], split.counts["words"])
        for name, split in data.splits.items()
    }
    assert counts == {"train": (12_544, 204_577), "dev": (2_001, 25_147)}
    assert len({tag for example in data.split("train") for tag in example["upos"]}) == 17
