"""What the pages of the catalogue take from docstrings, which are their only source of prose."""

import dataclasses
import inspect
import re
from typing import Any, NamedTuple

# Identifiers of arXiv: "arXiv 1706.03762", and "1910.10683" alone in a list of them.
_ARXIV = re.compile(r"(?:arXiv\s+)?(?<![\d.])(\d{4}\.\d{4,5})(?![\d.]\d)")
# A sentence ends at a point before a space, that of "et al." apart.
_REST_OF_SENTENCE = r"(?:[^.]|\.(?=\S)|(?<=\bal)\.)*\."


class Option(NamedTuple):
    """A field of a `Config`; `fixed` if the variant's name decides it."""

    name: str
    default: Any
    description: str
    fixed: bool


class Parts(NamedTuple):
    """A variant's docstring in parts; "" for what it does not say.

    Attributes:
        first: its first line.
        prose: the rest, without the sentences below: paper, formula, remarks.
        cost: "Time …, memory …".
        departures: "Departs from the paper …".
        impossible: "Cannot do: …".
    """

    first: str
    prose: str
    cost: str
    departures: str
    impossible: str


def parts(doc: str | None) -> Parts:
    """Returns the parts of a variant's docstring."""
    first, rest = split(doc)
    found = []
    for start in (r"Time\b", r"Departs\b", r"Cannot do:"):
        sentence, rest = _taken(start, rest)
        found.append(sentence)
    return Parts(first, rest.strip(), *found)


def split(doc: str | None) -> tuple[str, str]:
    """Returns the first line of a docstring and the rest of it."""
    first, _, rest = inspect.cleandoc(doc or "").partition("\n")
    return first, rest.strip("\n")


def brief_cost(cost: str) -> str:
    """Returns the sentence up to what the memory is, for a table."""
    found = re.match(r"Time.*?\bmemory\b([^.;:]|\.(?=\S))*", cost)
    return found[0] if found else cost


def papers(doc: str | None) -> list[str]:
    """Returns the identifiers of arXiv in a docstring, each once, in its order."""
    return list(dict.fromkeys(_ARXIV.findall(doc or "")))


def link(identifier: str, named: bool = True) -> str:
    """Returns a link to a paper."""
    return f"[{'arXiv ' if named else ''}{identifier}](https://arxiv.org/abs/{identifier})"


def markdown(text: str) -> str:
    """Returns a docstring's text for a Markdown page: identifiers of arXiv linked, marks escaped.

    Indented lines are formulas set apart, in Markdown as in the docstring.
    """
    lines = _ARXIV.sub(lambda found: link(found[1], "arXiv" in found[0]), text).split("\n")
    return "\n".join(line if line.startswith("    ") else _escaped(line) for line in lines)


def cell(text: str) -> str:
    """Returns a docstring's text for a cell of a table."""
    return markdown(" ".join(text.split())).replace("|", "\\|")


def options(config: type) -> list[Option]:
    """Returns the fields of a dataclass, described by the "Attributes" of it and its bases."""
    described: dict[str, str] = {}
    for each in reversed(config.__mro__):
        described |= attributes(each.__doc__)
    return [
        Option(f.name, f.default, described.get(f.name, ""), bool(f.metadata.get("fixed")))
        for f in dataclasses.fields(config)
    ]


def attributes(doc: str | None) -> dict[str, str]:
    """Returns the descriptions under "Attributes:" by name; a line may have several names."""
    _, _, section = inspect.cleandoc(doc or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.split("\n"):
        if not line.startswith("    "):
            break
        entry = re.match(r"    (\w+(?:, \w+)*): +(.*)", line)
        if entry:
            names = entry[1].split(", ")
        for name in names:
            found[name] = f"{found.get(name, '')} {entry[2] if entry else line.strip()}".strip()
    return found


def _taken(start: str, text: str) -> tuple[str, str]:
    """Returns the first sentence that begins like this, in one line, and the text without it."""
    paragraphs = text.split("\n\n")
    for i, paragraph in enumerate(paragraphs):
        found = re.search(rf"(?:^|(?<=[.:;]\s)){start}{_REST_OF_SENTENCE}\s*", paragraph)
        if found:
            paragraphs[i] = (paragraph[: found.start()] + paragraph[found.end() :]).strip()
            rest = "\n\n".join(paragraph for paragraph in paragraphs if paragraph)
            return " ".join(found[0].split()), rest
    return "", text


def _escaped(line: str) -> str:
    pieces = line.split("`")
    pieces[::2] = [re.sub(r"([*<$\\])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)
