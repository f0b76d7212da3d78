"""Data sets of the TFDS catalogue, on files that stand in for the download."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from attention.data import catalogue, load_dataset, packages
from attention.errors import UserError

TASK = "pos_tagging"


def row(identifier, form, upos, xpos, head):
    return f"{identifier}\t{form}\t{form}\t{upos}\t{xpos}\t_\t{head}\troot\t_\t_\n"


TRAIN = (
    "# sent_id = weblog-1\n# text = We don't.\n"
    + row("1", "We", "PRON", "PRP", "2")
    + row("2-3", "don't", "_", "_", "_")
    + row("2", "do", "AUX", "VBP", "0")
    + row("3", "n't", "PART", "RB", "2")
    + row("3.1", "know", "VERB", "VB", "_")
    + row("4", ".", "PUNCT", "_", "2")
    + "\n"
) + "".join(
    f"# sent_id = weblog-{i}\n" + row("1", f"Word{i}", "X", "FW", "0") + "\n" for i in range(2, 30)
)
DEV = "# sent_id = dev-1\n" + row("1", "Yes", "INTJ", "UH", "0") + "\n"
TEST = "# sent_id = test-1\n" + row("1", "No", "INTJ", "UH", "0") + "\n"


@pytest.fixture
def downloads(tmp_path, monkeypatch) -> Path:
    """Three files in place of those that the catalogue downloads."""
    import tensorflow_datasets as tfds

    folder = tmp_path / "downloads"
    folder.mkdir()
    for split, text in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        (folder / f"en_ewt-ud-{split}.conllu").write_text(text)

    def download(self, urls):
        return {key: [str(folder / Path(url).name) for url in urls] for key, urls in urls.items()}

    monkeypatch.setattr(tfds.download.DownloadManager, "download_and_extract", download)
    return folder


def test_ewt_of_the_catalogue(downloads, capfd):
    data = load_dataset("en_ewt", task=TASK)
    train = data.split("train")
    # Neither the range nor the empty node, which the catalogue stores too, is a word.
    assert train[0] == {
        "words": ["We", "do", "n't", "."],
        "upos": ["PRON", "AUX", "PART", "PUNCT"],
        "xpos": ["PRP", "VBP", "RB", "_"],
        "line": 1,
        "file": "weblog-1",
    }
    # In the order of the file, which the catalogue's own preparation does not keep.
    assert [e["words"][0] for e in train] == ["We"] + [f"Word{i}" for i in range(2, 30)]
    assert train.counts == {"sentences": 29, "words": 32, "unlabelled_words": 0}
    assert data.split("dev")[0]["words"] == ["Yes"]
    assert data.split("test")[0]["upos"] == ["INTJ"]
    assert capfd.readouterr() == ("", "")


def test_it_is_prepared_once_and_hashed_by_content(downloads, cache, monkeypatch):
    first = load_dataset("en_ewt", task=TASK)
    (downloads / "en_ewt-ud-dev.conllu").write_text(DEV.replace("INTJ", "X"))
    again = load_dataset("en_ewt", task=TASK)
    assert again.split("dev")[0]["upos"] == ["INTJ"]
    monkeypatch.setenv("ATTENTION_LAB_CACHE", str(cache / "other"))
    changed = load_dataset("en_ewt", task=TASK)
    same = {
        name: first.split(name).content_hash == changed.split(name).content_hash
        for name in first.splits
    }
    assert same == {"train": True, "dev": False, "test": True}


def test_what_keeps_it_from_being_prepared_is_one_line(downloads, cache, monkeypatch, caplog):
    import tensorflow_datasets as tfds

    def fail(error):
        def download(self, urls):
            raise error

        monkeypatch.setattr(tfds.download.DownloadManager, "download_and_extract", download)
        with caplog.at_level(logging.INFO), pytest.raises(UserError) as caught:
            load_dataset("en_ewt", task=TASK)
        assert "\n" not in str(caught.value)
        assert list((cache / "data").iterdir()) == []
        return str(caught.value)

    message = fail(ConnectionError("no route\nto host"))
    assert "could not be downloaded (no route)" in message and "dataset=files" in message
    message = fail(ImportError("No module named 'tensorflow'\nFailed importing"))
    assert message.endswith("(No module named 'tensorflow'): install it")


@pytest.mark.fast
def test_how_to_install_what_is_missing_is_true(tmp_path, monkeypatch):
    project = tmp_path / "pyproject.toml"
    monkeypatch.setattr(packages, "PROJECT_FILE", project)

    def advice(name, *, by_tfds):
        error = ImportError(f"No module named {name!r}", name=name)
        if not by_tfds:
            return catalogue._how_to_install(error)
        again = ImportError(f"{error}\nFailed importing")
        again.__cause__ = error
        return catalogue._how_to_install(again)

    for by_tfds in (False, True):
        project.write_text(
            "[project.optional-dependencies]\ndata = ['Py_Yaml>=6 ; x', 'lxml[a]']\n"
        )
        assert advice("lxml.etree", by_tfds=by_tfds) == "pip install -e '.[data]'"
        assert advice("py_yaml", by_tfds=by_tfds) == "pip install -e '.[data]'"
        assert advice("tensorflow", by_tfds=by_tfds) == "pip install tensorflow"
        project.write_text("[project]\nname = 'x'\n")
        assert advice("lxml", by_tfds=by_tfds) == "pip install lxml"
        project.unlink()
        assert advice("lxml", by_tfds=by_tfds) == "pip install lxml"


def test_the_catalogue_imports_no_tensorflow(repository):
    program = (
        "import sys\n"
        "from attention.data.preparation import quiet_tfds\n"
        "with quiet_tfds() as tfds:\n"
        "    tfds.builder('universal_dependencies/en_ewt', data_dir=sys.argv[1])\n"
        "print({'tensorflow', 'torch'} & set(sys.modules))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "nowhere"],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.stdout, result.stderr) == ("set()\n", "")
