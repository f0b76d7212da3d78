"""Fewer training examples: nested, the same each time, and with a name of their own."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest

from attention.data import load_dataset
from attention.data.dataset import Split
from attention.errors import UserError

WORDS = [f"w{i}" for i in range(40)]


@pytest.fixture
def load(tmp_path, conllu):
    """Returns a function from data.train_examples to the data set of forty sentences."""
    path = tmp_path / "train.conllu"
    path.write_text(conllu(*(f"{word}/X" for word in WORDS)))
    paths = {"train": str(path), "dev": str(path)}

    def load(number: int | None):
        return load_dataset("files", task="pos_tagging", paths=paths, train_examples=number)

    return load


def words_of(split) -> list[str]:
    return [example["words"][0] for example in split]


def test_a_smaller_part_lies_within_a_larger_one_in_the_order_of_the_file(load, caplog):
    with caplog.at_level(logging.INFO):
        parts = [words_of(load(number).split("train")) for number in (5, 11, 39)]
    assert [len(part) for part in parts] == [5, 11, 39]
    for smaller, larger in itertools.pairwise(parts):
        assert set(smaller) < set(larger)
    for part in parts:
        assert part == sorted(part, key=WORDS.index)
    assert parts[0] != WORDS[:5] and parts[0] == words_of(load(5).split("train"))
    assert "training on 5 of the 40 examples of files: data.train_examples" in caplog.text


def test_dev_is_whole_and_a_part_keeps_its_lines(load):
    data, whole = load(5), load(None)
    assert words_of(data.split("dev")) == WORDS
    lines = {example["words"][0]: example["line"] for example in whole.split("train")}
    part = data.split("train")
    assert {example["words"][0]: example["line"] for example in part} == {
        word: lines[word] for word in words_of(part)
    }
    assert part.counts == {"examples": 5, "skipped_examples": 35}
    assert words_of(part)[-1] == part[-1]["words"][0]


def test_each_part_has_its_own_hash_and_all_that_of_the_whole(load):
    hashes = [load(number).split("train").content_hash for number in (5, 6, 40, None)]
    assert len(set(hashes)) == 3 and hashes[2] == hashes[3]
    assert load(5).split("dev").content_hash == load(None).split("dev").content_hash


def test_more_than_there_are_is_refused(load):
    with pytest.raises(UserError, match=r"data\.train_examples=41: data set 'files' has 40 "):
        load(41)


@pytest.mark.fast
def test_a_line_that_is_the_number_of_a_record_stays_that():
    class Letters:
        def __len__(self):
            return 6

        def __getitems__(self, keys):
            return ["abcdef"[key] for key in keys]

    whole = Split(Letters(), lambda r, i: {"letter": r, "line": i + 1}, content_hash="", counts={})
    part = whole.part(np.array([1, 4]), content_hash="x")
    assert list(part) == [{"letter": "b", "line": 2}, {"letter": "e", "line": 5}]
    assert part[-1] == whole[4] and part.content_hash == "x"
