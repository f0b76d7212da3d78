"""Lets TFDS open archives where TensorFlow is not installed.

TFDS unpacks zip and tar files with Python's own modules, but opens them through TensorFlow's file
layer, which also reads remote storage. The files here are local.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from types import SimpleNamespace


@contextlib.contextmanager
def archives_without_tensorflow() -> Iterator[None]:
    """Gives TFDS's extractor Python's own `open` for the length of a block."""
    if importlib.util.find_spec("tensorflow") is not None:
        yield
        return
    from tensorflow_datasets.core.download import extractor

    before = extractor.tf
    files = SimpleNamespace(GFile=open)
    text = SimpleNamespace(as_text=_as_text)
    extractor.tf = SimpleNamespace(io=SimpleNamespace(gfile=files), compat=text)
    try:
        yield
    finally:
        extractor.tf = before


def _as_text(path: str | bytes) -> str:
    return path if isinstance(path, str) else path.decode()
