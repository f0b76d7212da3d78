"""Data sets of the TFDS catalogue: TFDS downloads and prepares them, here without TensorFlow."""

from __future__ import annotations

import importlib
import json
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attention.cache_directory import cache_directory
from attention.data.archives import archives_without_tensorflow
from attention.data.dataset import READ_AHEAD, Dataset, Example, Record, Selected, Split
from attention.data.packages import how_to_install
from attention.data.preparation import (
    Prepared,
    SplitSummary,
    hash_all,
    hash_parts,
    prepare,
    quiet_tfds,
)
from attention.errors import UserError, did_you_mean

FORMAT_VERSION = "1"
MAX_LISTED = 40

logger = logging.getLogger(__name__)

Decode = Callable[[Record, int], Example]


class Part(NamedTuple):
    """What a split is made of: a split of the catalogue, and those of its examples to keep.

    `skipped` names the count of those left out; None where another split has them.
    """

    split: str
    keep: Callable[[Example], bool] = lambda example: True
    skipped: str | None = None


def load_catalogue(
    name: str,
    builder_name: str,
    *,
    splits: Mapping[str, Part],
    make_decode: Callable[[Any], Decode],
    count: Callable[[Example], Mapping[str, int]],
    version: str = "",
) -> Dataset:
    """Prepares a catalogue data set where that is not done yet, and opens it.

    Args:
      name: of the data set here.
      builder_name: in the catalogue, with its config: "universal_dependencies/en_ewt".
      splits: what each of our splits is made of; one that the catalogue lacks is left out.
      make_decode: from TFDS's features to the function from a record and its index to an example.
      count: what an example adds to the split's counts.
      version: of the caller's own choices (what a split keeps).

    Raises:
      UserError: if it is not in the catalogue, cannot be downloaded, or a package is missing that
        prepares it.
    """
    with quiet_tfds() as tfds:
        builder = find_builder(tfds, builder_name, data_dir=cache_directory("data"))
    fingerprint = hash_parts(
        *(FORMAT_VERSION, name, builder_name, str(builder.version)),
        *(part.split for part in splits.values()),
        *([version] if version else []),
    )
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
    for ours in prepared.splits:
        records = prepared.records(splits[ours].split)
        decode = make_decode(records.dataset_info.features)
        records = _kept(prepared, ours, records)
        opened[ours] = Split(records, decode, **prepared.splits[ours]._asdict())
    return Dataset(name, opened)


def find_builder(tfds: Any, builder_name: str, *, data_dir: Path, **options: Any) -> Any:
    """Returns a builder of the catalogue, or raises a UserError with the nearest name."""
    for group in ("text", "translate"):  # the older ones are known once their module is imported
        importlib.import_module(f"tensorflow_datasets.{group}")
    try:
        return tfds.builder(builder_name, data_dir=data_dir, **options)
    except (ValueError, AssertionError) as error:
        dataset, _, config = builder_name.partition("/")
        try:
            configs = tfds.builder_cls(dataset).builder_configs
        except ValueError:
            raise UserError(f"the TFDS catalogue has no '{dataset}'") from None
        if config in configs:
            raise UserError(f"'{builder_name}' of TFDS: {_first_line(error)}") from None
        listed = ", ".join(sorted(configs)[:MAX_LISTED])
        raise UserError(
            f"'{dataset}' of the TFDS catalogue has no '{config}'{did_you_mean(config, configs)}; "
            f"it has: {listed or 'no such parts'}"
        ) from None


def _kept(prepared: Prepared, split: str, records: Any) -> Any:
    """Returns the records that belong to one of our splits."""
    path = _numbers_path(prepared.root, split)
    if not path.exists():
        return records
    try:
        return Selected(records, np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError):
        raise UserError(f"prepared data '{prepared.root}' is damaged: remove this folder") from None


def _numbers_path(root: Path, split: str) -> Path:
    return root / f"{split}.npy"


def _write(
    folder: Path,
    *,
    name: str,
    builder_name: str,
    splits: Mapping[str, Part],
    make_decode: Callable[[Any], Decode],
    count: Callable[[Example], Mapping[str, int]],
) -> tuple[str, dict[str, SplitSummary]]:
    logger.info("downloading data set %s: %s of the TFDS catalogue", name, builder_name)
    with quiet_tfds() as tfds:
        builder = find_builder(tfds, builder_name, data_dir=folder, file_format="array_record")
        builder.info.as_proto.disable_shuffling = True  # keep the order of the source
        _download_and_prepare(tfds, builder, name)
        decode = make_decode(builder.info.features)
        summaries = {}
        for ours, part in splits.items():
            if part.split not in builder.info.splits:
                continue
            records = builder.as_data_source(part.split)
            summaries[ours], numbers = _summary(records, part, decode, count)
            if len(numbers) < len(records):
                np.save(_numbers_path(folder, ours), numbers)
    return str(Path(builder.data_dir).relative_to(folder)), summaries


def _download_and_prepare(tfds: Any, builder: Any, name: str) -> None:
    from attention.data.builder import download_config

    # What the builders of the catalogue raise: for the network and the disk, for files to be
    # fetched by hand, for files that are not as they expect.
    download_errors = (OSError, tfds.download.DownloadError)
    other_errors = (
        ImportError,
        ValueError,
        AssertionError,
        tfds.core.download.extractor.ExtractError,
    )
    try:
        with archives_without_tensorflow():
            builder.download_and_prepare(
                download_dir=cache_directory("downloads"), download_config=download_config()
            )
    except (*download_errors, *other_errors) as error:
        if missing := _missing_package(error):
            raise UserError(
                f"data set '{name}' needs a package that is not installed, only to be prepared "
                f"({_first_line(missing)}): {_how_to_install(missing)}"
            ) from error
        verb = "downloaded" if isinstance(error, download_errors) else "prepared"
        raise UserError(
            f"data set '{name}' could not be {verb} ({_first_line(error)}); "
            "with files of your own use dataset=files"
        ) from error


def _summary(
    records: Any, part: Part, decode: Decode, count: Callable
) -> tuple[SplitSummary, np.ndarray]:
    """Reads a split through: what is hashed is the content, wherever it was downloaded from."""
    counts: Counter = Counter()
    numbers = array("i")  # of millions of pairs a list would fill the memory

    def content() -> Iterator[str]:
        yield FORMAT_VERSION
        for number, record in _numbered(records):
            example = decode(record, len(numbers))
            if part.keep(example):
                numbers.append(number)
                counts.update(count(example))
                yield json.dumps(example, sort_keys=True)
            elif part.skipped:
                counts[part.skipped] += 1

    content_hash = hash_all(content())
    return SplitSummary(content_hash, dict(counts)), np.array(numbers, np.int32)


def _numbered(records: Any) -> Iterator[tuple[int, Record]]:
    for start in range(0, len(records), READ_AHEAD):
        block = range(start, min(start + READ_AHEAD, len(records)))
        yield from zip(block, records.__getitems__(list(block)), strict=True)


def _missing_package(error: BaseException | None) -> ImportError | None:
    """Returns the missing package that an error comes down to, if it is one."""
    while error is not None and not isinstance(error, ImportError):
        error = error.__cause__
    return error


def _how_to_install(error: ImportError) -> str:
    """Names the package, and the extra where that brings it."""
    missing = error.name or getattr(error.__cause__, "name", None)  # TFDS raises it once more
    if not missing:
        return "install it"
    return how_to_install(missing.partition(".")[0].replace("_", "-"))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
