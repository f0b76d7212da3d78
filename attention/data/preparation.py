"""Prepares a data set once: TFDS writes ArrayRecord, a rename makes it visible.

A prepared folder is complete or absent. It is written under a name of its own and renamed in one
step, so that a process killed half-way leaves nothing that is read later, and of two processes
that start together the slower one discards what it wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attention.cache_directory import cache_directory
from attention.errors import UserError

SUMMARY = "summary.json"
SKIPPED = "skipped_"  # how the names of counts of what was left out begin
STALE_SECONDS = 24 * 3600

logger = logging.getLogger(__name__)


class SplitSummary(NamedTuple):
    """What preparation learned of one split."""

    content_hash: str
    counts: dict[str, int]


class Prepared(NamedTuple):
    """A prepared data set: where TFDS reads it (relative to `root`), and its splits."""

    root: Path
    builder_directory: str
    splits: dict[str, SplitSummary]

    def records(self, split: str) -> Any:
        """Returns the TFDS data source of a split: random access, no TensorFlow."""
        with quiet_tfds() as tfds:
            builder = tfds.builder_from_directory(self.root / self.builder_directory)
            return builder.as_data_source(split)


def prepare(
    name: str,
    *,
    fingerprint: str,
    write: Callable[[Path], tuple[str, Mapping[str, SplitSummary]]],
) -> Prepared:
    """Returns the prepared data set of this content; calls `write` where there is none yet.

    Each time it logs one line: what each split holds, and what was skipped to get there.

    Args:
      name: the data set's name.
      fingerprint: hex digest of everything the result depends on.
      write: fills an empty folder and returns TFDS's directory in it and the splits' summaries.

    Raises:
      UserError: if the cache cannot be written, or whatever wrong input `write` finds.
    """
    folder = re.sub(r"[^\w.-]", "_", name)  # a name of the TFDS catalogue holds a slash
    root = cache_directory("data", f"{folder}-{fingerprint[:16]}")
    done = f"from {root}"
    if not root.exists():
        start = time.monotonic()
        _write_atomically(root, write)
        done = f"prepared in {time.monotonic() - start:.1f} s, {root}"
    prepared = _read_summary(root)
    sizes = ", ".join(f"{s} {describe_counts(x.counts)}" for s, x in prepared.splits.items())
    logger.info("data set %s: %s; %s", name, sizes, done)
    return prepared


def hash_parts(*parts: str | bytes) -> str:
    """Returns the sha256 hex digest of the parts, each set apart from the next by its length."""
    return hash_all(parts)


def hash_all(parts: Iterable[str | bytes]) -> str:
    """Returns what `hash_parts` does, of parts that need not all be in memory."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()


@contextlib.contextmanager
def quiet_tfds() -> Iterator[Any]:
    """Gives the `tensorflow_datasets` module, whose bars, prints and warnings go nowhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow_datasets as tfds  # here: predicting from a checkpoint does not need it

        chatty = [logging.getLogger(name) for name in ("absl", "urllib3")]
        levels = [each.level for each in chatty]
        for each in chatty:
            each.setLevel(logging.ERROR)
        tfds.disable_progress_bar()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield tfds
        finally:
            for each, level in zip(chatty, levels, strict=True):
                each.setLevel(level)


def _write_atomically(root: Path, write: Callable) -> None:
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{root.name}.", dir=root.parent))
    except OSError as error:
        raise UserError(
            f"cannot write the cache '{root.parent}' ({error.strerror}): "
            "set ATTENTION_LAB_CACHE to a folder that can be written"
        ) from None
    _remove_stale(root)
    try:
        builder_directory, splits = write(temporary)
        summary = {
            "builder_directory": builder_directory,
            "splits": {name: split._asdict() for name, split in splits.items()},
        }
        (temporary / SUMMARY).write_text(json.dumps(summary, indent=1))
        temporary.chmod(0o755)  # mkdtemp keeps others out; a shared cache lets them read
        try:
            os.rename(temporary, root)
        except OSError:
            if not root.exists():  # else another process was first, with the same content
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_stale(root: Path) -> None:
    """Removes what killed processes left of this data set, old enough to be nobody's work."""
    for left in root.parent.glob(f".{root.name}.*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _read_summary(root: Path) -> Prepared:
    try:
        summary = json.loads((root / SUMMARY).read_text())
        splits = {name: SplitSummary(**split) for name, split in summary["splits"].items()}
        return Prepared(root, summary["builder_directory"], splits)
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"prepared data '{root}' is damaged: remove this folder") from None


def describe_counts(counts: Mapping[str, int]) -> str:
    """Returns the counts that are not 0 in words: "5 sentences 61 words (2 skipped ranges)"."""
    words = {key: f"{n:,} {key.replace('_', ' ')}" for key, n in counts.items() if n}
    held = " ".join(text for key, text in words.items() if not key.startswith(SKIPPED))
    skipped = ", ".join(text for key, text in words.items() if key.startswith(SKIPPED))
    return f"{held} ({skipped})" if skipped else held
