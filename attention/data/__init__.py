"""Data: sources by name, CoNLL-U, tokenizers, packing, and the Grain pipeline."""

from attention.data import sources
from attention.data.dataset import Dataset, Split
from attention.data.load import load_dataset

__all__ = ["Dataset", "Split", "load_dataset", "sources"]
