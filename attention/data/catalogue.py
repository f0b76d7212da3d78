"""Data sets of the TFDS catalogue: TFDS downloads and prepares them, here without TensorFlow."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attention.cache_directory import cache_directory
from attention.data.dataset import Dataset, Example, Record, Split
from attention.data.preparation import SplitSummary, hash_parts, prepare, quiet_tfds
from attention.errors import UserError

FORMAT_VERSION = "1"
PROJECT_FILE = Path(__file__).parents[2] / "pyproject.toml"
INSTALL_EXTRA = "pip install -e '.[data]'"

logger = logging.getLogger(__name__)

Decode = Callable[[Record, int], Example]


def load_catalogue(
    name: str,
    builder_name: str,
    *,
    splits: Mapping[str, str],
    make_decode: Callable[[Any], Decode],
    count: Callable[[Example], Mapping[str, int]],
) -> Dataset:
    """Prepares a catalogue data set where that is not done yet, and opens it.

    Args:
      name: of the data set here.
      builder_name: in the catalogue, with its config: "universal_dependencies/en_ewt".
      splits: our split to the catalogue's.
      make_decode: from TFDS's features to the function from a record and its index to an example.
      count: what an example adds to the split's counts.

    Raises:
      UserError: if it cannot be downloaded, or a package is missing that prepares it.
    """
    with quiet_tfds() as tfds:
        version = str(tfds.builder(builder_name, data_dir=cache_directory("data")).version)
    fingerprint = hash_parts(FORMAT_VERSION, name, builder_name, version, *splits.values())
    write = partial(
        _write,
        name=name,
        builder_name=builder_name,
        splits=splits,
        make_decode=make_decode,
        count=count,
    )
    prepared = prepare(name, fingerprint=fingerprint, write=write)
    opened = {}
    for ours, theirs in splits.items():
        records = prepared.records(theirs)
        decode = make_decode(records.dataset_info.features)
        opened[ours] = Split(records, decode, **prepared.splits[ours]._asdict())
    return Dataset(name, opened)


def _write(
    folder: Path,
    *,
    name: str,
    builder_name: str,
    splits: Mapping[str, str],
    make_decode: Callable[[Any], Decode],
    count: Callable[[Example], Mapping[str, int]],
) -> tuple[str, dict[str, SplitSummary]]:
    logger.info("downloading data set %s: %s of the TFDS catalogue", name, builder_name)
    with quiet_tfds() as tfds:
        from attention.data.builder import download_config

        builder = tfds.builder(builder_name, data_dir=folder, file_format="array_record")
        builder.info.as_proto.disable_shuffling = True  # keep the order of the source
        try:
            builder.download_and_prepare(
                download_dir=cache_directory("downloads"), download_config=download_config()
            )
        except ImportError as error:
            raise UserError(
                f"data set '{name}' needs a package that is not installed, only to be prepared "
                f"({_first_line(error)}): {_how_to_install(error)}"
            ) from error
        except (OSError, tfds.download.DownloadError) as error:
            raise UserError(
                f"data set '{name}' could not be downloaded ({_first_line(error)}); "
                "with files of your own use dataset=files and data.train_path"
            ) from error
        decode = make_decode(builder.info.features)
        summaries = {
            ours: _summary(builder.as_data_source(theirs), decode, count)
            for ours, theirs in splits.items()
        }
    return str(Path(builder.data_dir).relative_to(folder)), summaries


def _summary(records, decode, count) -> SplitSummary:
    """Reads a split through: what is hashed is the content, wherever it was downloaded from."""
    counts, lines = Counter(), []
    for index in range(len(records)):
        example = decode(records[index], index)
        counts.update(count(example))
        lines.append(json.dumps(example, sort_keys=True))
    return SplitSummary(hash_parts(FORMAT_VERSION, *lines), dict(counts))


def _how_to_install(error: ImportError) -> str:
    """Names the package, and the extra where that brings it."""
    missing = error.name or getattr(error.__cause__, "name", None)  # TFDS raises it once more
    if not missing:
        return "install it"
    package = missing.partition(".")[0].replace("_", "-")
    return INSTALL_EXTRA if package in _packages_of_extra() else f"pip install {package}"


def _packages_of_extra() -> set[str]:
    """Returns the packages of the extra `data`, as the checkout declares them."""
    try:
        project = tomllib.loads(PROJECT_FILE.read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, ValueError):
        return set()
    extra = project.get("optional-dependencies", {}).get("data", [])
    names = [re.match(r"[\w.-]*", requirement) for requirement in extra]
    return {re.sub(r"[-_.]+", "-", name[0]).lower() for name in names if name}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
