"""Sentiment and translation from the TFDS catalogue, on archives that stand in for the download."""

from __future__ import annotations

import importlib.util
import io
import logging
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from attention.data import load_dataset
from attention.data.splitting import split_of
from attention.errors import UserError


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    """Gives the catalogue files of ours for its addresses; they are unpacked as real ones are."""
    import tensorflow_datasets as tfds

    folder = tmp_path / "downloads"
    folder.mkdir()
    manager = tfds.download.DownloadManager

    def download(self, urls):
        if isinstance(urls, dict):
            return {key: download(self, url) for key, url in urls.items()}
        if isinstance(urls, list):
            return [download(self, url) for url in urls]
        return folder / Path(urls).name

    monkeypatch.setattr(manager, "download", download)
    monkeypatch.setattr(
        manager, "download_and_extract", lambda self, urls: self.extract(self.download(urls))
    )
    return folder


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def sst2(folder, splits):
    with zipfile.ZipFile(folder / "SST-2.zip", "w") as archive:
        for name, rows in splits.items():
            header = "index\tsentence" if name == "test" else "sentence\tlabel"
            archive.writestr(f"SST-2/{name}.tsv", "\n".join([header, *rows]) + "\n")


def test_sst2(downloads, capfd):
    splits = {
        "train": [f"phrase {i} \t{i % 2}" for i in range(30)],
        "dev": ["fine \u2013 film \t1"],
        "test": ["0\tno label"],
    }
    sst2(downloads, splits)
    data = load_dataset("sst2", task="sentiment")
    train = data.split("train")
    assert [(e["text"], e["label"]) for e in train] == [
        (f"phrase {i} ", str(i % 2)) for i in range(30)
    ]
    assert data.split("dev")[0] == {
        "text": "fine \u2013 film ",
        "label": "1",
        "line": 1,
        "file": "glue/sst2",
    }
    assert data.split("test")[0]["label"] == "_"
    assert data.split("test").counts == {"examples": 1, "unlabelled_examples": 1}
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_sst2_of_real_sentences(downloads, shared_data):
    def rows(name):
        return (shared_data / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()

    sst2(downloads, {"train": rows("train"), "dev": rows("dev"), "test": ["0\tx"]})
    data = load_dataset("sst2", task="sentiment")
    for name in ("train", "dev"):
        assert ["\t".join((e["text"], e["label"])) for e in data.split(name)] == rows(name)


def test_imdb_reviews(downloads):
    files = {
        f"aclImdb/{split}/{label}/{i}_7.txt": f"{split} review {label} {i} "
        for split in ("train", "test")
        for label in ("neg", "pos")
        for i in range(50)
    }
    files["aclImdb/train/unsup/0_0.txt"] = "left out"
    tar(downloads / "aclImdb_v1.tar.gz", files)
    data = load_dataset("imdb_reviews", task="sentiment")
    texts = {name: [e["text"] for e in split] for name, split in data.splits.items()}
    labelled = [text.strip() for name, text in files.items() if "train/unsup" not in name]
    training = [text for text in labelled if text.startswith("train")]
    # A part of the training reviews is dev; both keep their order.
    assert texts["dev"] == [text for text in training if split_of(text) == "dev"] != []
    assert texts["train"] == [text for text in training if split_of(text) != "dev"]
    assert texts["test"] == [text for text in labelled if text.startswith("test")]
    for split in data.splits.values():
        assert all(e["label"] == str(int(" pos " in e["text"])) for e in split)
        assert [e["line"] for e in split] == list(range(1, len(split) + 1))
        assert split.counts == {"examples": len(split), "unlabelled_examples": 0}
        assert split[-1] == split[len(split) - 1]
    again = load_dataset("imdb_reviews", task="sentiment")
    assert [e["text"] for e in again.split("dev")] == texts["dev"]
    assert len({split.content_hash for split in again.splits.values()}) == 3


def test_prepared_data_that_are_damaged_are_named(downloads, cache):
    files = {f"aclImdb/train/pos/{i}_7.txt": f"review {i}" for i in range(30)}
    tar(downloads / "aclImdb_v1.tar.gz", files | {"aclImdb/test/pos/0_7.txt": "x"})
    with pytest.raises(UserError, match=r"could not be prepared"):
        load_dataset("imdb_reviews", task="sentiment")
    files |= {"aclImdb/test/pos/0_7.txt": "x", "aclImdb/train/unsup/0_0.txt": "y"}
    tar(downloads / "aclImdb_v1.tar.gz", files)
    load_dataset("imdb_reviews", task="sentiment")
    (numbers,) = cache.glob("data/imdb_reviews-*/dev.npy")
    numbers.write_bytes(b"")
    with pytest.raises(UserError, match="damaged: remove this folder"):
        load_dataset("imdb_reviews", task="sentiment")


def ted(folder, *, train):
    sides = {"pt": [s for s, _ in train], "en": [t for _, t in train]}
    files = {
        f"datasets/pt_to_en/{language}.{split}": "\n".join(
            lines if split == "train" else [f"{language} {split}"]
        )
        for language, lines in sides.items()
        for split in ("train", "dev", "test")
    }
    tar(folder / "qi18naacl-dataset.tar.gz", files)


PAIRS = [(f"um {i}", f"one {i}") for i in range(20)]


def pairs(split):
    return [(e["source"], e["target"]) for e in split]


def test_ted_talks(downloads, capfd, cache):
    ted(downloads, train=[*PAIRS[:10], ("so", " "), *PAIRS[10:]])
    name = "ted_hrlr_translate/pt_to_en"
    data = load_dataset(name, task="translation")
    assert pairs(data.split("train")) == PAIRS
    assert data.split("train").counts == {
        "pairs": 20,
        "blank_sources": 0,
        "blank_targets": 0,
        "skipped_pairs_with_a_blank_side": 1,
    }
    assert data.split("train")[19]["line"] == 20
    assert pairs(data.split("dev")) == [("pt dev", "en dev")]
    assert data.direction == ("pt", "en")
    assert data.split("test")[0] == {
        "source": "pt test",
        "target": "en test",
        "line": 1,
        "file": name,
    }
    turned = load_dataset(name, task="translation", options={"source_language": "en"})
    assert pairs(turned.split("train")) == [(target, source) for source, target in PAIRS]
    assert turned.direction == ("en", "pt")
    assert turned.split("dev").content_hash != data.split("dev").content_hash
    assert len(list((cache / "data").iterdir())) == 2
    assert capfd.readouterr() == ("", "")
    with pytest.raises(UserError, match=r"data\.source_language='fr': data set '.*' has en, pt"):
        load_dataset(name, task="translation", options={"source_language": "fr"})


def test_wmt_in_its_own_format(downloads, monkeypatch):
    """Plain and SGML files in one tar a part, as the workshops give them out."""
    import tensorflow_datasets.translate.wmt14  # noqa: F401
    from tensorflow_datasets.translate.wmt import DATASET_MAP
    from tensorflow_datasets.translate.wmt14 import Wmt14Translate

    parts = {"train": ["newscommentary_v9"], "validation": ["newstest2014"]}
    monkeypatch.setattr(Wmt14Translate, "_subsets", property(lambda self: parts))
    for name, texts in (("newscommentary_v9", ("eins\nzwei", "one\ntwo")), ("newstest2014", None)):
        part = DATASET_MAP[name]
        (url,) = part.get_url("de")
        paths = part.get_path("de")
        if texts is None:
            texts = tuple(
                f'<doc>\n<seg id="1">{text}</seg>\n</doc>\n' for text in ("drei", "three")
            )
        tar(downloads / Path(url).name, dict(zip(paths, texts, strict=True)))
    data = load_dataset("wmt14_translate/de-en", task="translation")
    assert list(data.splits) == ["train", "dev"]  # of the splits those that there are
    assert pairs(data.split("train")) == [("eins", "one"), ("zwei", "two")]
    assert pairs(data.split("dev")) == [("drei", "three")]


@pytest.fixture
def made_up(monkeypatch):
    """Registers a builder with other features and no download, as a user may write one."""
    import tensorflow_datasets as tfds

    class MadeUpTalk(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.2.3")
        BUILDER_CONFIGS = [  # noqa: RUF012
            tfds.core.BuilderConfig(name=name, version=tfds.core.Version("1.2.3"))
            for name in ("three", "labels", "many", "manual", "needy")
        ]

        def _info(self):
            text, number = tfds.features.Text(), tfds.features.Scalar(np.int64)
            features = {"a": text, "b": text, "c": text, "n": number}
            if self.builder_config.name == "labels":
                features = {"a": text, "n": number}
            if self.builder_config.name == "many":
                features = {"translations": tfds.features.TranslationVariableLanguages()}
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, dl_manager):
            if self.builder_config.name == "manual":
                raise AssertionError("you must manually download x.zip\nand more")
            if self.builder_config.name == "needy":
                import no_such_package_here  # noqa: F401  # pyright: ignore
            return {"train": self._generate_examples(), "validation": self._generate_examples()}

        def _generate_examples(self):
            for i in range(3):
                yield f"key {3 - i}", {"a": f"a{i}", "b": f"b{i}", "c": f"c{i}", "n": i}

    yield "made_up_talk"
    del tfds.core.registered._DATASET_REGISTRY["made_up_talk"]


def test_languages_are_the_texts_of_the_features(made_up):
    name = f"{made_up}/three"
    with pytest.raises(UserError, match=r"has a, b, c: set data\.source_language and"):
        load_dataset(name, task="translation")
    options = {"source_language": "c", "target_language": "a"}
    data = load_dataset(name, task="translation", options=options)
    assert list(data.splits) == ["train", "dev"]
    assert pairs(data.split("dev")) == [("c0", "a0"), ("c1", "a1"), ("c2", "a2")]
    with pytest.raises(UserError, match=r"'.*/labels' .* holds no pairs of texts; .* are a, n"):
        load_dataset(f"{made_up}/labels", task="translation", options=options)
    with pytest.raises(
        UserError, match=r"in 'translations' .*choose a data set of pairs"
    ) as caught:
        load_dataset(f"{made_up}/many", task="translation", options=options)
    assert "\n" not in str(caught.value)


def test_what_keeps_it_from_being_prepared_is_one_line(made_up, cache, caplog):
    options = {"source_language": "c", "target_language": "a"}
    for config, message in (
        ("manual", r"could not be prepared \(you must manually download x\.zip\); .*dataset=files"),
        ("needy", r"package that is not installed, .*: pip install no-such-package-here"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            load_dataset(f"{made_up}/{config}", task="translation", options=options)
        assert "\n" not in str(caught.value)
    assert list((cache / "data").iterdir()) == []


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="TensorFlow is here")
def test_archives_are_opened_without_tensorflow_and_its_lack_is_said(downloads, monkeypatch):
    from contextlib import nullcontext

    ted(downloads, train=PAIRS)
    with monkeypatch.context() as patch:
        patch.setattr("attention.data.catalogue.archives_without_tensorflow", nullcontext)
        with pytest.raises(UserError, match=r"not installed.*tensorflow.*: pip install tensorflow"):
            load_dataset("ted_hrlr_translate/pt_to_en", task="translation")
    load_dataset("ted_hrlr_translate/pt_to_en", task="translation")
    assert "tensorflow" not in sys.modules


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_set/x", "the TFDS catalogue has no 'no_such_set'"),
        ("ted_hrlr_translate/pt_to_eng", "did you mean 'pt_to_en'.*it has: .*fr_to_pt"),
        ("wmt14_translate/en-de", "'wmt14_translate' .* has no 'en-de'.*de-en"),
        ("ted_hrlr_translate/", "has no ''"),
        ("../x", "TFDS"),
    ],
)
def test_wrong_names_get_the_nearest(name, message):
    with pytest.raises(UserError, match=re.compile(message)) as caught:
        load_dataset(name, task="translation")
    assert "\n" not in str(caught.value)


@pytest.mark.fast
def test_a_slash_is_for_translation_alone():
    with pytest.raises(UserError, match="dataset='glue/sst2' is not known"):
        load_dataset("glue/sst2", task="sentiment")


def test_one_line_says_what_was_prepared(downloads, caplog):
    ted(downloads, train=PAIRS)
    with caplog.at_level(logging.INFO):
        load_dataset("ted_hrlr_translate/pt_to_en", task="translation")
    first, second = caplog.messages
    assert first.startswith("downloading data set ted_hrlr_translate/pt_to_en: ")
    assert re.match(
        r"data set ted_hrlr_translate/pt_to_en: train 20 pairs, dev 1 pairs, test 1 pairs; "
        r"prepared in .* s, .*ted_hrlr_translate_pt_to_en-\w+$",
        second,
    )
