"""Labels as ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from attention.data.tokenizers.sealed import read_sealed, write_sealed

UNLABELLED = -1  # also what fills padding: no loss, no metric
UNKNOWN_LABEL = -2  # a label that training never saw: no loss, and counted as wrong
NO_LABEL = "_"

FILE = "labels.json"


class LabelSet:
    """The labels of the training data, in sorted order; "_" is none of them."""

    def __init__(self, names: Iterable[str]):
        self.names = tuple(names)
        self._ids = {name: i for i, name in enumerate(self.names)} | {NO_LABEL: UNLABELLED}

    @classmethod
    def build(cls, labels: Iterable[Sequence[str]]) -> LabelSet:
        """Builds it of the labels of the training examples."""
        return cls(sorted({name for names in labels for name in names} - {NO_LABEL}))

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """Returns the label's id, -1 for "_", -2 for a label that training never saw."""
        return self._ids.get(name, UNKNOWN_LABEL)

    def encode(self, names: Sequence[str]) -> np.ndarray:
        """Returns the ids of labels as int32 [t]."""
        return np.array([self.index(name) for name in names], np.int32)

    def count_unknown(self, names: Iterable[str]) -> int:
        """Returns how many labels are neither known nor "_"."""
        return sum(self.index(name) == UNKNOWN_LABEL for name in names)

    def save(self, directory: str | Path) -> None:
        """Writes the labels into an existing folder."""
        write_sealed(Path(directory) / FILE, {"names": self.names})

    @classmethod
    def load(cls, directory: str | Path) -> LabelSet:
        """Reads what `save` wrote, or raises a UserError that names the file.

        One in which two names have changed places would turn every answer of the model round.
        """
        return cls(**read_sealed(Path(directory) / FILE))
