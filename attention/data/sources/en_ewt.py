"""Universal Dependencies English Web Treebank, release 2.10, from the TFDS catalogue.

CC BY-SA 4.0. 12,544 / 2,001 / 2,077 sentences, downloaded from the treebank's own repository.

Citation: Silveira et al., "A Gold Standard Dependency Corpus for English", LREC 2014.
"""

from __future__ import annotations

from attention.data.catalogue import Part, load_catalogue
from attention.data.dataset import Dataset
from attention.data.tagging import count_tagged, universal_dependencies_decoder

TASKS = ("pos_tagging",)
BUILDER = "universal_dependencies/en_ewt"


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    splits = {name: Part(name) for name in ("train", "dev", "test")}
    return load_catalogue(
        "en_ewt",
        BUILDER,
        splits=splits,
        make_decode=universal_dependencies_decoder,
        count=count_tagged,
    )
