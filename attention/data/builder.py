"""The TFDS builder behind every data set that this repository reads itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

Examples = Callable[[], Iterable[Mapping[str, Any]]]


class ExamplesBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Writes the given examples of each split, in the given order."""

    name = "examples"
    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, *, features: Mapping[str, Any], splits: Mapping[str, Examples], **kwargs):
        self._features = features
        self._examples = splits
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(self._features),
            disable_shuffling=True,  # predictions are written in the order of the source
        )

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(name) for name in self._examples}

    def _generate_examples(self, split):
        yield from enumerate(self._examples[split]())


def write_examples(
    folder: Path, *, features: Mapping[str, Any], splits: Mapping[str, Examples]
) -> str:
    """Writes all splits as ArrayRecord under `folder`; returns TFDS's directory in it."""
    builder = ExamplesBuilder(
        features=features, splits=splits, data_dir=folder, file_format="array_record"
    )
    downloads = folder / "downloads"  # TFDS makes it in any case
    builder.download_and_prepare(download_dir=downloads, download_config=download_config())
    shutil.rmtree(downloads, ignore_errors=True)
    return str(Path(builder.data_dir).relative_to(folder))


def download_config() -> tfds.download.DownloadConfig:
    """Returns the settings of every preparation: nothing fetched ready-made, no statistics."""
    return tfds.download.DownloadConfig(
        try_download_gcs=False, compute_stats=tfds.download.ComputeStatsMode.SKIP
    )
