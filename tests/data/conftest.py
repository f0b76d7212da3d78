"""What the tests of the data share: caches of their own, and CoNLL-U made of a few words."""

from __future__ import annotations

from pathlib import Path

import pytest

ROW = "{id}\t{form}\t_\t{upos}\t{xpos}\t_\t_\t_\t_\t_\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A cache that holds nothing yet."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("ATTENTION_LAB_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def conllu():
    """Returns a function that makes CoNLL-U of sentences such as "the/DET cat/NOUN"."""

    def sentence(text: str) -> str:
        words = [pair.rsplit("/", 1) for pair in text.split(" ")]
        rows = (
            ROW.format(id=i, form=form, upos=tag, xpos=tag.lower())
            for i, (form, tag) in enumerate(words, start=1)
        )
        return "".join(rows) + "\n"

    return lambda *sentences: "".join(sentence(text) for text in sentences)
