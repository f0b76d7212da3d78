"""A user's own files.

For tagging CoNLL-U, for sentiment TSV or JSONL, named by data.train_path, eval_path and test_path;
for translation two parallel text files a split, data.train_source_path and data.train_target_path
and so on, with data.source_language and data.target_language as names of what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attention.data.dataset import Dataset
from attention.data.sentiment import load_labelled_files
from attention.data.tagging import ConlluFiles, load_conllu
from attention.data.translation import load_parallel_files
from attention.errors import UserError

TASKS = ("pos_tagging", "sentiment", "translation")
# Names alone, by which the task scores: they turn nothing round and enter no hash of the data.
OPTIONS = {"translation": ("source_language", "target_language")}
VERSION = "1"
KEYS = {"train": "train", "dev": "eval", "test": "test"}  # of a split, in the config
SIDES = ("source", "target")


def load(*, task: str, paths: Mapping[str, str | None], options) -> Dataset:
    """Loads the splits whose paths are given; those of "train" must be.

    Args:
      paths: "train", "dev", "test" to a file; for translation "train_source", "train_target" and
        so on.
    """
    if task == "translation":
        return load_parallel_files("files", _pairs(paths), version=VERSION)
    files = _single(paths)
    if task == "sentiment":
        return load_labelled_files("files", files, version=VERSION)
    splits = {split: ConlluFiles((path,)) for split, path in files.items()}
    return load_conllu("files", splits, version=VERSION)


def _single(paths: Mapping[str, str | None]) -> dict[str, Path]:
    """One file a split, as far as they are given."""
    if not paths.get("train"):
        raise UserError("dataset=files needs data.train_path: the file to train on")
    return {
        split: _existing(f"data.{key}_path", path)
        for split, key in KEYS.items()
        if (path := paths.get(split))
    }


def _pairs(paths: Mapping[str, str | None]) -> dict[str, tuple[Path, Path]]:
    """Two files a split, as far as they are given."""
    pairs = {}
    for split, key in KEYS.items():
        given = {f"data.{key}_{side}_path": paths.get(f"{split}_{side}") for side in SIDES}
        missing = [name for name, path in given.items() if not path]
        if len(missing) == 1 or (missing and split == "train"):
            raise UserError(
                f"dataset=files needs {' and '.join(missing)}: of two files line i of one is the "
                "translation of line i of the other"
            )
        if not missing:
            source, target = (_existing(name, path) for name, path in given.items() if path)
            pairs[split] = (source, target)
    return pairs


def _existing(key: str, path: str) -> Path:
    resolved = Path(path).expanduser()
    if not resolved.is_file():
        what = "is not a file" if resolved.exists() else "does not exist"
        raise UserError(f"{key}='{path}' {what}")
    return resolved
