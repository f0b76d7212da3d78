"""Stanford Sentiment Treebank with two classes, as GLUE has it, from the TFDS catalogue.

67,349 / 872 / 1,821 sentences and phrases, of film reviews; the test labels were never given out.
Licence: none stated. "0" is negative, "1" positive. Downloaded as one zip file.

Citation: Socher et al., "Recursive Deep Models for Semantic Compositionality Over a Sentiment
Treebank", EMNLP 2013; Wang et al., "GLUE", ICLR 2019.
"""

from __future__ import annotations

from attention.data.catalogue import Part, load_catalogue
from attention.data.dataset import Dataset
from attention.data.sentiment import catalogue_decoder, count_labelled

TASKS = ("sentiment",)
BUILDER = "glue/sst2"


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and an unlabelled test."""
    return load_catalogue(
        "sst2",
        BUILDER,
        splits={"train": Part("train"), "dev": Part("validation"), "test": Part("test")},
        make_decode=catalogue_decoder(BUILDER, text_key="sentence"),
        count=count_labelled,
    )
