"""Short Chinese sentences for learners, with English translations, carried by pip: the default.

Package `hsk-sentences-audio` 1.0.0 (text CC BY-SA 4.0): 4,354 sentences of the levels of HSK 3.0,
half of them of at most 8 characters. 80 whose English is a placeholder are left out, and so are 44
that repeat an earlier Chinese or English sentence. It has no split of its own: a hash of the
Chinese makes 3,346 / 424 / 460. Chinese to English; data.source_language=en turns it round.

Citation: the project `hsk-sentences-audio`, version 1.0.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from attention.data.dataset import Dataset
from attention.data.packages import package_file
from attention.data.translation import Translations, load_unsplit
from attention.errors import UserError

TASKS = ("translation",)
OPTIONS = ("source_language", "target_language")
VERSION = "1"
PACKAGE = "hsk-sentences-audio"
FILE = "sentences.json"
LANGUAGES = ("zh", "en")


def load(*, task: str, paths, options) -> Dataset:
    """Loads train, dev and test."""
    path = package_file(PACKAGE, FILE, dataset="hsk_zh_en")
    return load_unsplit(
        "hsk_zh_en", path, _read, languages=LANGUAGES, options=options, version=VERSION
    )


def _read(path: Path) -> Iterator[Translations]:
    """Yields the sentences; `line` is the number of the record."""
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        for number, record in enumerate(records, start=1):
            texts = {"zh": record["chinese"], "en": record["translation"]["en"]}
            skipped = "skipped_placeholders" if "placeholder" in texts["en"].lower() else None
            yield Translations(texts, number, skipped)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the file of {PACKAGE} 1.0.0 ({error!r})") from None
