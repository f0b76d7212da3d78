"""docs/worked_example.md says what the code gives, to the digits that it prints."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as xml
from types import ModuleType

import numpy as np
import pytest

from attention import normalizers

pytestmark = pytest.mark.fast

NUMBER = re.compile(r"\d+\.\d+")
REGENERATE = "run: python docs/worked_example.py"


@pytest.fixture(scope="module")
def example(repository) -> ModuleType:
    path = repository / "docs" / "worked_example.py"
    spec = importlib.util.spec_from_file_location("worked_example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(example) -> dict[str, str]:
    return example.pages()


def same(committed: str, computed: str) -> bool:
    """Whether the words are the same, and the numbers to one in the last printed digit."""
    if NUMBER.sub("#", committed) != NUMBER.sub("#", computed):
        return False
    pairs = zip(NUMBER.findall(committed), NUMBER.findall(computed), strict=True)
    return all(
        len(one) == len(other)
        and abs(float(one) - float(other)) < 1.5 * 10.0 ** -len(one.partition(".")[2])
        for one, other in pairs
    )


@pytest.mark.long
def test_the_page_is_what_the_code_gives(repository, made):
    committed = (repository / "docs" / "worked_example.md").read_text(encoding="utf-8")
    assert same(committed, made["worked_example.md"]), REGENERATE


def test_the_comparison_sees_another_number_and_another_word():
    assert same("a 0.123 b", "a 0.124 b")
    assert not same("a 0.123 b", "a 0.125 b")
    assert not same("a 0.123 b", "a 0.123 c")
    assert not same("a 0.123 b", "a 0.12 b")


def test_the_page_agrees_with_arithmetic_done_here(example, made):
    q, k, v = (np.array(x) for x in (example.QUERIES, example.KEYS, example.VALUES))
    exponentials = np.exp(q @ k.T / np.sqrt(2))
    for kept in (np.ones((6, 6)), 1 - np.eye(6)):
        weights = exponentials * kept / (exponentials * kept).sum(-1, keepdims=True)
        outputs = weights @ v
        for row in (*outputs, *weights[:, 1:][:1]):
            assert ", ".join(f"{x:.3f}" for x in row[:2]) in made["worked_example.md"].replace(
                " | ", ", "
            )


def test_pictures_are_there_and_whole(repository, example, made):
    linked = set(re.findall(r"\]\((worked_example/\w+\.svg)\)", made["worked_example.md"]))
    committed = {f"worked_example/{p.name}" for p in (repository / "docs").glob("*/*.svg")}
    assert linked == set(made) - {"worked_example.md"} and linked <= committed, REGENERATE
    for path in linked:
        assert xml.fromstring(made[path]).get("role") == "img"
    stems = {path.split("/")[1].removesuffix(".svg") for path in linked}
    assert {f"score_{name}" for name in example.SCORES} <= stems
    assert {f"normalizer_{name}" for name in normalizers.names()} <= stems
