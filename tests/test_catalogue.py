"""docs/variants is what its generator writes now; and what the pages take from docstrings."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest

from attention import normalizers, positions, variants
from attention.configuration import load_config
from attention.configuration.fields import leaves
from attention.tools import catalogue, docstrings

pytestmark = pytest.mark.fast

DOC = """What it is.

A Paper (One et al. 2020), arXiv 1901.01234, as in arXiv
1409.0473 and 2001.00001: e = a*b / |q|,
  out. Time t·s, t^1.5 at most, memory t·s; more is said. τ is 1.5.

Linear Time (Two 2021) is another. Departs from One et al. in
one thing: two <heads>. Cannot do: `a_b*c`; cross-attention.

    x = [1]₊ * 2
"""


@pytest.fixture(scope="module")
def made(repository) -> dict[str, str]:
    return catalogue.pages(repository)


def test_pages_are_what_the_generator_writes(repository, made):
    folder = repository / "docs" / "variants"
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    wrong = [n for n in sorted({*made, *committed}) if made.get(n) != committed.get(n)]
    assert not wrong, f"{', '.join(wrong)} in docs/variants: run: {catalogue.COMMAND}"


def test_every_name_has_its_page_or_its_section(made):
    assert {f"{name}.md" for name in variants.names()} < set(made)
    for name in variants.names():
        assert f"[{name}]({name}.md)" in made["README.md"]
    for page, names in (
        ("positions.md", positions.names()),
        ("normalizers.md", normalizers.names()),
    ):
        assert re.findall(r"^## (\w+)$", made[page], re.M) == list(names)


def test_links_lead_to_files(repository, made):
    folder = repository / "docs" / "variants"
    for page, text in made.items():
        for target in set(re.findall(r"\]\(([^)#:]+)(?:#\w+)?\)", text)):
            found = target in made or (folder / target).exists()
            assert found, f"{page} links to {target}"


@pytest.mark.parametrize("name", variants.names())
def test_what_a_page_needs_is_in_the_docstrings(name):
    variant = variants.get(name)
    parts = docstrings.parts(variant.__doc__)
    assert parts.first.endswith("."), "the first line is a sentence"
    assert parts.cost, f"attention/variants/{name}.py does not say: Time …, memory …"
    for option in docstrings.options(variant.Config):
        assert option.description, f"the Config of {name} does not describe {option.name}"


@pytest.mark.parametrize("name", variants.names())
def test_the_command_of_a_page_is_accepted(made, name):
    found = re.search(r"--config=(\S+) --workdir", made[f"{name}.md"])
    assert found is not None
    config = load_config(found[1])
    model = config.to_dict()["model"]
    place = "attention" if "attention" in model else "cross_attention"
    assert model[place]["variant"] == name


@pytest.mark.parametrize("name", variants.names())
def test_the_options_of_a_page_are_keys_of_its_command(made, name):
    page = made[f"{name}.md"]
    found = re.search(r"--config=(\S+) --workdir", page)
    assert found is not None
    keys = {key for key, _ in leaves(load_config(found[1]))}
    listed = re.findall(r"^\| `(model\.[\w.]+)` \|", page, re.M)
    assert (
        listed or not docstrings.options(variants.get(name).Config) or "of the exact family" in page
    )
    assert not set(listed) - keys


def test_options_of_positions_and_normalizers_are_described():
    for scheme in positions.names():
        for option in docstrings.options(positions.get(scheme).Config):
            assert option.description, f"{scheme}: {option.name}"


def test_the_errors_page_shows_what_was_measured(repository):
    folder = repository / "docs" / "results" / "errors"
    spec = importlib.util.spec_from_file_location("measure", folder / "measure.py")
    assert spec is not None and spec.loader is not None
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    measured = json.loads((folder / "errors.json").read_text(encoding="utf-8"))
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert page == measure.readme(measured), "run: python docs/results/errors/measure.py"


# -- docstrings ------------------------------------------------------------------------------------


def test_parts_of_a_docstring():
    parts = docstrings.parts(DOC)
    assert parts.first == "What it is."
    assert parts.cost == "Time t·s, t^1.5 at most, memory t·s; more is said."
    assert docstrings.brief_cost(parts.cost) == "Time t·s, t^1.5 at most, memory t·s"
    assert parts.departures == "Departs from One et al. in one thing: two <heads>."
    assert parts.impossible == "Cannot do: `a_b*c`; cross-attention."
    kept = parts.prose.split("\n\n")
    assert kept[0].endswith("out. τ is 1.5.") and kept[1] == "Linear Time (Two 2021) is another."
    assert kept[2] == "    x = [1]₊ * 2"


def test_papers_are_linked_and_marks_escaped():
    assert docstrings.papers(DOC) == ["1901.01234", "1409.0473", "2001.00001"]
    text = docstrings.markdown(DOC)
    assert "[arXiv 1409.0473](https://arxiv.org/abs/1409.0473) and [2001.00001](" in text
    assert "a\\*b / |q|" in text and "two \\<heads>" in text
    assert "`a_b*c`" in text and "    x = [1]₊ * 2" in text
    assert docstrings.cell("a |\n b") == "a \\| b"


def test_attributes_of_a_docstring():
    doc = """Options.

    Attributes:
        one: of
            two lines: here.
        two, three: both.

    Raises:
        four: no.
    """
    both = "both."
    assert docstrings.attributes(doc) == {"one": "of two lines: here.", "two": both, "three": both}
    assert docstrings.attributes("Nothing.") == docstrings.attributes(None) == {}
