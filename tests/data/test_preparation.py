"""Preparation: once, whole or not at all, quiet, and without TensorFlow."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from attention.data.preparation import SplitSummary, hash_parts, prepare
from attention.data.tagging import ConlluFiles, load_conllu
from attention.errors import UserError

LOAD = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
from attention.data import load_dataset
data = load_dataset("files", task="pos_tagging", paths={"train": sys.argv[1]})
words = [word for example in data.split("train") for word in example["words"]]
loaded = sorted({"tensorflow", "torch"} & set(sys.modules))
print(len(words), loaded, end="")
"""

LOAD_AND_DIE = """
import itertools, os, signal, sys
from attention.data import tagging
records = tagging._records
def dying(files, counts):
    yield from itertools.islice(records(files, counts), 3)
    os.kill(os.getpid(), signal.SIGKILL)
tagging._records = dying
from attention.data import load_dataset
load_dataset("files", task="pos_tagging", paths={"train": sys.argv[1]})
"""


def start(program, path, repository):
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        cwd=repository,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def file(tmp_path, conllu):
    path = tmp_path / "train.conllu"
    path.write_text(conllu(*["a/DET b/NOUN"] * 500))
    return path


def prepared_folders(cache):
    return sorted(path.name for path in (cache / "data").iterdir())


def write_nothing(folder):
    return "examples", {"train": SplitSummary("hash", {"sentences": 1})}


def test_one_line_for_the_user_and_no_tensorflow(file, cache, repository):
    process = start(LOAD, file, repository)
    out, err = process.communicate(timeout=120)
    assert out == "1000 []", err
    (line,) = err.splitlines()
    assert re.match(
        r"INFO attention\.data\.preparation data set files: train 500 sentences 1,000 words; "
        r"prepared in \d+\.\d s, \S+$",
        line,
    )
    out, err = start(LOAD, file, repository).communicate(timeout=120)
    assert out == "1000 []"
    (line,) = err.splitlines()
    assert re.search(r" data set files: train 500 sentences 1,000 words; from \S+$", line)


def test_two_processes_that_start_together_both_get_the_data(file, cache, repository):
    processes = [start(LOAD, file, repository) for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert out == "1000 []", err
    (folder,) = prepared_folders(cache)
    assert folder.startswith("files-")


def test_what_a_killed_process_left_is_never_used(file, cache, repository):
    process = start(LOAD_AND_DIE, file, repository)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    (left,) = prepared_folders(cache)
    assert left.startswith(".files-")
    out, err = start(LOAD, file, repository).communicate(timeout=120)
    assert out == "1000 []", err


@pytest.mark.fast
def test_the_slower_of_two_discards_what_it_wrote(cache):
    def write(folder):
        if not os.environ.get("INNER"):
            os.environ["INNER"] = "1"
            prepare("x", fingerprint="f" * 64, write=write_nothing)  # another process, first
            del os.environ["INNER"]
        return "examples", {"train": SplitSummary("late", {})}

    prepared = prepare("x", fingerprint="f" * 64, write=write)
    assert prepared.splits["train"].content_hash == "hash"
    assert prepared_folders(cache) == ["x-" + "f" * 16]


@pytest.mark.fast
def test_a_failed_preparation_leaves_nothing(cache):
    def write(folder):
        (folder / "half").write_text("made")
        raise UserError("x.conllu:3: wrong")

    with pytest.raises(UserError, match="wrong"):
        prepare("x", fingerprint="f" * 64, write=write)
    assert prepared_folders(cache) == []


@pytest.mark.fast
def test_it_is_prepared_once(cache):
    calls = []

    def write(folder):
        calls.append(folder)
        return write_nothing(folder)

    for _ in range(2):
        prepare("x", fingerprint="f" * 64, write=write)
    prepare("x", fingerprint="e" * 64, write=write)
    assert len(calls) == 2


@pytest.mark.fast
def test_what_was_skipped_is_said_each_time(cache, caplog):
    counts = {"sentences": 1200, "words": 3, "unlabelled_words": 0, "skipped_ranges": 2614}
    splits = {
        "train": SplitSummary("a", {**counts, "skipped_empty_nodes": 1}),
        "dev": SplitSummary("b", {"sentences": 5, "skipped_ranges": 0}),
    }
    said = "train 1,200 sentences 3 words (2,614 skipped ranges, 1 skipped empty nodes), "
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            prepare("x", fingerprint="f" * 64, write=lambda folder: ("examples", splits))
        (message,) = caplog.messages
        assert message.startswith(f"data set x: {said}dev 5 sentences; ")


@pytest.mark.fast
def test_old_leftovers_go_and_young_ones_stay(cache):
    prefix = ".x-" + "f" * 16
    old, young = cache / "data" / f"{prefix}.old", cache / "data" / f"{prefix}.young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    prepare("x", fingerprint="f" * 64, write=write_nothing)
    assert not old.exists()
    assert young.exists()


@pytest.mark.fast
def test_a_damaged_folder_and_a_cache_that_cannot_be_written_are_named(cache, monkeypatch):
    prepared = prepare("x", fingerprint="f" * 64, write=write_nothing)
    (prepared.root / "summary.json").write_text("{")
    with pytest.raises(UserError, match=r"damaged: remove this folder"):
        prepare("x", fingerprint="f" * 64, write=write_nothing)
    (cache / "file").write_text("")
    monkeypatch.setenv("ATTENTION_LAB_CACHE", str(cache / "file"))
    with pytest.raises(UserError, match="ATTENTION_LAB_CACHE"):
        prepare("x", fingerprint="f" * 64, write=write_nothing)


@pytest.mark.fast
def test_hashes_tell_parts_from_their_join():
    assert hash_parts("ab", "c") != hash_parts("a", "bc")
    assert hash_parts("ab") == hash_parts(b"ab")


def test_the_content_decides_and_not_the_path(tmp_path, cache, conllu):
    text = conllu("a/DET b/NOUN", "c/X")

    def load(name, text, version="1"):
        path = tmp_path / name
        path.write_text(text)
        return load_conllu("files", {"train": ConlluFiles((path,))}, version=version)

    first, moved = load("a.conllu", text), load("b.conllu", text)
    assert first.split("train").content_hash == moved.split("train").content_hash
    assert len(prepared_folders(cache)) == 1
    assert moved.split("train")[1]["file"] == str(tmp_path / "b.conllu")
    changed = load("a.conllu", text.replace("/X", "/Y").replace("X", "Y"))
    newer = load("a.conllu", text, version="2")
    hashes = {d.split("train").content_hash for d in (first, changed, newer)}
    assert len(hashes) == 3
    assert changed.split("train")[1]["upos"] == ["Y"]


def test_wrong_files_are_named_through_tfds(tmp_path, cache, caplog):
    path = tmp_path / "bad.conllu"
    path.write_text("1\ta\n")
    with caplog.at_level(logging.INFO), pytest.raises(UserError) as caught:
        load_conllu("files", {"train": ConlluFiles((path,))}, version="1")
    assert str(caught.value) == f"{path}:1: expected 10 tab-separated columns, got 2"
    path.write_text("# nothing\n\n")
    with pytest.raises(UserError, match=r"bad\.conllu: holds no sentence"):
        load_conllu("files", {"train": ConlluFiles((path,))}, version="1")
    assert prepared_folders(cache) == []


def test_the_summary_can_be_read_by_people(tmp_path, cache, conllu):
    path = tmp_path / "a.conllu"
    path.write_text(conllu("a/_ b/NOUN"))
    split = load_conllu("files", {"train": ConlluFiles((path,))}, version="1").split("train")
    (folder,) = (cache / "data").iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["splits"]["train"]["content_hash"] == split.content_hash
    assert split.counts["unlabelled_words"] == 1
