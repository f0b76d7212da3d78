"""Turkish web and Wikipedia sentences with universal tags, carried by pip: the default.

Package `turkish-treebanks` 1.0.0 (Apache-2.0): 4,851 sentences, 81,370 words, 14 tags. It has no
official split: of each file, sentence i is dev if i % 10 = 8, test if 9, and train otherwise. The
most frequent tag of each word reaches 90.1 %.

Citation: Kayadelen, Öztürel and Bohnet, "A Gold Standard Dependency Treebank for Turkish",
LREC 2020.
"""

from __future__ import annotations

from attention.data.dataset import Dataset
from attention.data.packages import package_file
from attention.data.tagging import ConlluFiles, load_conllu

TASKS = ("pos_tagging",)
VERSION = "1"
PACKAGE = "turkish-treebanks"
FILES = ("web.conllu", "wiki.conllu")


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    files = tuple(package_file(PACKAGE, name, dataset="turkish_treebank") for name in FILES)
    splits = {
        "train": ConlluFiles(files, keep=lambda index: index % 10 < 8),
        "dev": ConlluFiles(files, keep=lambda index: index % 10 == 8),
        "test": ConlluFiles(files, keep=lambda index: index % 10 == 9),
    }
    return load_conllu("turkish_treebank", splits, version=VERSION)
