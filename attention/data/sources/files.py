"""A user's own files. For tagging: CoNLL-U, named by data.train_path, eval_path and test_path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attention.data.dataset import Dataset
from attention.data.tagging import ConlluFiles, load_conllu
from attention.errors import UserError

TASKS = ("pos_tagging",)
VERSION = "1"
PATH_KEYS = {"train": "data.train_path", "dev": "data.eval_path", "test": "data.test_path"}


def load(*, task: str, paths: Mapping[str, str | None]) -> Dataset:
    """Loads the splits whose path is given; "train" must be."""
    if not paths.get("train"):
        raise UserError("dataset=files needs data.train_path: the file to train on")
    splits = {}
    for split, key in PATH_KEYS.items():
        if path := paths.get(split):
            resolved = Path(path).expanduser()
            if not resolved.is_file():
                what = "is not a file" if resolved.exists() else "does not exist"
                raise UserError(f"{key}='{path}' {what}")
            splits[split] = ConlluFiles((resolved,))
    return load_conllu("files", splits, version=VERSION)
