"""Large Movie Review Dataset: long film reviews with the original test split, from TFDS.

25,000 reviews to train on, of which a hash of the text takes about 2,500 for dev, and 25,000 for
test, half of each negative ("0") and half positive ("1"); the unlabelled 50,000 are left out.
Licence: none stated. Downloaded as one tar file of 80 MB.

Citation: Maas et al., "Learning Word Vectors for Sentiment Analysis", ACL 2011.
"""

from __future__ import annotations

from attention.data.catalogue import Part, load_catalogue
from attention.data.dataset import Dataset, Example
from attention.data.sentiment import catalogue_decoder, count_labelled
from attention.data.splitting import split_of

TASKS = ("sentiment",)
VERSION = "1"
BUILDER = "imdb_reviews/plain_text"


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    return load_catalogue(
        "imdb_reviews",
        BUILDER,
        splits={
            "train": Part("train", lambda example: not _is_dev(example)),
            "dev": Part("train", _is_dev),
            "test": Part("test"),
        },
        make_decode=catalogue_decoder(BUILDER, text_key="text"),
        count=count_labelled,
        version=VERSION,
    )


def _is_dev(example: Example) -> bool:
    return split_of(example["text"]) == "dev"
