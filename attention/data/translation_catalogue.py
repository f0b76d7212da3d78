"""Any data set of pairs in the TFDS catalogue: `dataset=ted_hrlr_translate/pt_to_en`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from attention.cache_directory import cache_directory
from attention.data.catalogue import Decode, Part, find_builder, load_catalogue
from attention.data.dataset import Dataset, Direction, Example, Record
from attention.data.preparation import quiet_tfds
from attention.data.translation import (
    SKIPPED_BLANK,
    choose_direction,
    count_pair,
    has_blank_side,
)
from attention.errors import UserError

VERSION = "1"
SPLITS = {"train": "train", "dev": "validation", "test": "test"}


def load_translation_catalogue(name: str, *, options: Mapping[str, Any]) -> Dataset:
    """Prepares a data set of the catalogue where that is not done yet, and opens it.

    Its languages are the texts of its features, its direction is its own where the options
    choose none. Of its splits train, validation and test those are taken that it has; training
    pairs with a blank side are left out and counted.

    Args:
      name: in the catalogue, with its config: "wmt14_translate/de-en".
      options: "source_language" and "target_language".

    Raises:
      UserError: if there is none of this name, it holds no pairs, or it cannot be prepared.
    """
    with quiet_tfds() as tfds:
        builder = find_builder(tfds, name, data_dir=cache_directory("data"))
        languages = _languages(tfds, builder, name)
    default = builder.info.supervised_keys
    if not default or not set(default) <= set(languages):
        default = None
    direction = choose_direction(name, languages, default=default, options=options)
    parts = {
        ours: Part(theirs, _has_both, SKIPPED_BLANK) if ours == "train" else Part(theirs)
        for ours, theirs in SPLITS.items()
    }

    def make_decode(features: Any) -> Decode:
        return lambda record, index: _example(record, index, name, direction)

    loaded = load_catalogue(
        name,
        name,
        splits=parts,
        make_decode=make_decode,
        count=count_pair,
        version=f"{VERSION} {direction.source} {direction.target}",
    )
    return dataclasses.replace(loaded, direction=direction)


def _languages(tfds: Any, builder: Any, name: str) -> list[str]:
    features = builder.info.features
    texts = (
        [key for key, feature in features.items() if type(feature) is tfds.features.Text]
        if isinstance(features, tfds.features.FeaturesDict)
        else []
    )
    if many := _of_many_languages(tfds, features):
        raise UserError(
            f"dataset='{name}' of the TFDS catalogue has in '{many[0]}' texts of whichever "
            f"languages there are, and no two that each example has: choose a data set of pairs, "
            f"such as ted_hrlr_translate/pt_to_en"
        )
    if len(texts) < 2:
        raise UserError(
            f"dataset='{name}' of the TFDS catalogue holds no pairs of texts; its features are "
            f"{', '.join(features) if hasattr(features, 'items') else type(features).__name__}"
        )
    return sorted(texts)


def _of_many_languages(tfds: Any, features: Any) -> list[str]:
    kind = tfds.features.TranslationVariableLanguages
    named = features.items() if isinstance(features, tfds.features.FeaturesDict) else ()
    return [key for key, feature in named if isinstance(feature, kind)]


def _has_both(example: Example) -> bool:
    return not has_blank_side(example)


def _example(record: Record, index: int, name: str, direction: Direction) -> Example:
    return {
        "source": record[direction.source].decode(),
        "target": record[direction.target].decode(),
        "line": index + 1,
        "file": name,
    }
