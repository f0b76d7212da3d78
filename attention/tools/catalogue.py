"""The catalogue of variants, position schemes and normalizers: pages made from the code."""

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from attention import normalizers, positions, variants
from attention.core.exact import ExactConfig
from attention.ops.own_array import OwnArray
from attention.tools import docstrings
from attention.tools.docstrings import Option, cell, link, markdown
from attention.tools.witnesses import Witnesses

COMMAND = "python docs/variants/make.py"
TRAIN = "python train.py --config=configs/pos_tagging.py:variant={name},size=tiny"
TRANSLATE = "python train.py --config=configs/translation.py:model=recurrent,cross={name},size=tiny"
NOTE = f"<!-- Made by `{COMMAND}` from the code. Change the docstrings, not this page. -->"
_MODES = {"bidirectional": "B", "causal": "C", "cross": "X", "decode": "D", "packed": "P"}
_UP = "../.."  # from a page to the root of the repository
_WITNESSES = (
    "Each is checked against its formula in float64, [tests/reference/{file}.py]"
    f"({_UP}/tests/reference/{{file}}.py), and where a file is named also against other "
    f"libraries, as [tests/golden]({_UP}/tests/golden/README.md) says."
)


def pages(repository: Path) -> dict[str, str]:
    """Returns the text of each page of docs/variants, by its file name.

    Args:
        repository: its root, where the witnesses and the measured errors lie.
    """
    exact = [option.name for option in docstrings.options(ExactConfig)]
    names = [*variants.names(), *positions.names(), *normalizers.names(), *exact]
    witnesses = Witnesses(repository, names)
    path = repository / "docs" / "results" / "errors" / "errors.json"
    measured = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    errors = measured.get("variants", {})
    made = {
        "README.md": _overview(),
        "options.md": _options_page(witnesses),
        "positions.md": _positions_page(witnesses),
        "normalizers.md": _normalizers_page(witnesses),
    }
    for name in variants.names():
        made[f"{name}.md"] = _variant_page(name, witnesses, errors.get(name))
    return made


# -- pages -----------------------------------------------------------------------------------------


def _overview() -> str:
    rows = []
    for name in variants.names():
        variant = variants.get(name)
        parts = docstrings.parts(variant.__doc__)
        cited = ", ".join(link(paper, named=False) for paper in docstrings.papers(variant.__doc__))
        modes = "".join(letter for mode, letter in _MODES.items() if mode in variant.MODES)
        cost = cell(docstrings.brief_cost(parts.cost)) or "–"
        first = cell(parts.first)
        rows.append(f"| [{name}]({name}.md) | {first} | {cited or '–'} | {modes} | {cost} |")
    letters = ", ".join(f"{letter} {mode}" for mode, letter in _MODES.items())
    return _page(
        "Variants",
        [
            f"What `variant=` accepts: {len(rows)} mechanisms, each a file of "
            f"[attention/variants]({_UP}/attention/variants) whose docstring is the source of its "
            f"page. After a change, `{COMMAND}` writes these pages anew.",
            f"Modes: {letters}. A variant with C trains in both directions through "
            f"`model.direction=two_pass`, whether it has B or not. Dimension letters: b batch, t "
            f"query length, s key length, d model, n query heads, k key heads, h head size.",
            "See also the [options](options.md) that the exact family shares, "
            "[positions](positions.md), [normalizers](normalizers.md), the "
            "[measured errors](../results/errors/README.md), and six words "
            "[computed step by step](../worked_example.md).",
            _table(("name", "what it is", "paper", "modes", "cost"), rows),
        ],
    )


def _variant_page(name: str, witnesses: Witnesses, measured: Any) -> str:
    variant = variants.get(name)
    parts = docstrings.parts(variant.__doc__)
    golden = witnesses.golden(name)
    differs = f"\n[tests/golden]({_UP}/tests/golden/README.md) says of what, and how it departs."
    checked = [*witnesses.reference(name), *golden, *([differs] if golden else [])]
    directions = _directions(variant)
    command = f"{(TRAIN if directions else TRANSLATE).format(name=name)} --workdir=runs/{name}"
    return _page(
        f"`{name}`",
        [
            f"**{markdown(parts.first)}**",
            markdown(parts.prose),
            "\n".join(f"- {fact}" for fact in [*_stated(variant), *_declared(variant)]),
            f"## Train it\n\n```\n{command}\n```",
            "## Options\n\n" + _own_options(variant.Config, _section_of(variant)),
            "\n".join(["## Witnesses", "", *(checked or ["None yet."])]),
            "## Largest error against float64\n\n" + _errors(measured),
            f"Code: [attention/variants/{name}.py]({_UP}/attention/variants/{name}.py).",
        ],
    )


def _directions(variant: ModuleType) -> list[str]:
    """Returns what `model.direction` may be; nothing for one that attends to another sequence."""
    directions = [mode for mode in ("bidirectional", "causal") if mode in variant.MODES]
    return directions + (["two_pass"] if "causal" in directions else [])


def _section_of(variant: ModuleType) -> str:
    """Returns where a config has the variant's options: that of the page's command."""
    return "model.attention" if _directions(variant) else "model.cross_attention"


def _stated(variant: ModuleType) -> Iterable[str]:
    """Yields what the docstring states."""
    parts = docstrings.parts(variant.__doc__)
    cited = docstrings.papers(variant.__doc__)
    if cited:
        yield f"**Paper**: {', '.join(link(paper) for paper in cited)}"
    if parts.cost:
        yield f"**Cost**: {markdown(parts.cost)}"
    if parts.departures:
        yield f"**Departs**{markdown(parts.departures.removeprefix('Departs'))}"
    if parts.impossible:
        yield f"**Cannot do**{markdown(parts.impossible.removeprefix('Cannot do'))}"


def _declared(variant: ModuleType) -> Iterable[str]:
    """Yields what the module declares."""
    yield f"**Modes**: {', '.join(mode for mode in _MODES if mode in variant.MODES)}"
    directions = _directions(variant)
    yield (
        f"**`model.direction`**: {', '.join(directions)}"
        if directions
        else "**Place**: between a decoder and its source alone"
    )
    inside = [name for name in positions.names() if name in getattr(variant, "POSITIONS", ())]
    outside = [name for name in positions.names() if positions.place(name) == "input"]
    yield (
        f"**Positions**: inside attention {', '.join(_anchors('positions', inside)) or 'none'}; "
        f"at the model's input {', '.join(_anchors('positions', outside))}"
    )
    if hasattr(variant, "attend"):
        given = [f"`{array.name}` [{array.axes}]" for array in _arrays(variant)]
        besides = f", with {', '.join(given)}" if given else ""
        yield f"**As a function**: `attend(q, k, v, …)` on arrays [b t n h]{besides}"
    else:
        yield "**As a function**: not one of q, k and v; a layer only"


def _arrays(variant: ModuleType) -> tuple[OwnArray, ...]:
    parts = getattr(variant, "VARIANT", None)
    of_parts = () if parts is None else parts.parts(variant.Config()).own_arrays
    return (*of_parts, *getattr(variant, "ARRAYS", ()))


def _own_options(config: type, section: str) -> str:
    """Returns a variant's own options, and which of the exact family's it has."""
    shared = {option.name: option for option in docstrings.options(ExactConfig)}
    found = docstrings.options(config)
    exact = issubclass(config, ExactConfig)
    own = [o for o in found if not (exact and o.fixed) and shared.get(o.name) != o]
    parts = [_options_table(own, section)] if own else []
    if not exact:
        return parts[0] if parts else "None."
    fixed = [f"`{o.name}={o.default!r}`" for o in found if o.fixed]
    if fixed:
        parts.append(f"The name decides {', '.join(fixed)}: another value is refused.")
    rest = [f"`{o.name}`" for o in found if not o.fixed and o not in own]
    also = "And the" if own else "The"
    parts.append(f"{also} [options of the exact family](options.md): {', '.join(rest)}.")
    return "\n\n".join(parts)


def _options_page(witnesses: Witnesses) -> str:
    exact = docstrings.options(ExactConfig)
    parts = [
        "Every variant of the exact family has these, except where its name decides one. On the "
        "command line: `--config.model.attention.NAME=VALUE`; in Python: keywords of "
        '`variants.make`, as in `variants.make("scaled_dot", …, num_kv_heads=2)`.',
        _options_table(exact, "model.attention"),
        "Values of `normalizer`: " + ", ".join(_anchors("normalizers", normalizers.names())) + ".",
    ]
    rows = []
    for name in variants.names():
        fixed = [o for o in docstrings.options(variants.get(name).Config) if o.fixed]
        if fixed:
            values = ", ".join(f"`{o.name}={o.default!r}`" for o in fixed)
            rows.append(f"| [{name}]({name}.md) | {values} |")
    parts.append("## Decided by a name\n\n" + _table(("variant", "option"), rows))
    lines = [line for option in exact for line in witnesses.golden(option.name)]
    if lines:
        parts.append("\n".join(["## Witnesses of options", "", *lines]))
    return _page("Options of the exact family", parts)


def _positions_page(witnesses: Witnesses) -> str:
    parts = [
        "What `model.position` accepts. A scheme acts at the model's input (its vectors are added "
        "to the embeddings, or joined to them: `model.position_merge`), or inside each attention "
        "layer. Each scheme's options are under `model.positions.NAME`.",
        _WITNESSES.format(file="positions"),
    ]
    for name in positions.names():
        scheme = positions.get(name)
        takers = [n for n in variants.names() if name in getattr(variants.get(n), "POSITIONS", ())]
        place = {
            "attention": "inside attention, of " + ", ".join(f"[{n}]({n}.md)" for n in takers),
            "input": "at the model's input, of any variant",
            "nowhere": "nowhere",
        }[scheme.PLACE]
        own = docstrings.options(scheme.Config)
        more = [f"- **Acts** {place}", f"- **Set by** `--config.model.position={name}`"]
        parts.append(_section(name, scheme, more, own, f"model.positions.{name}", witnesses))
    return _page("Position schemes", parts)


def _normalizers_page(witnesses: Witnesses) -> str:
    parts = [
        "What makes weights of scores e: values of `model.attention.normalizer`, for every variant "
        "of the exact family whose name does not decide it. c is the number of keys that the query "
        "sees. A hidden key weighs exactly 0, and a query that sees no key gives zeros.",
        "[Pictures](../worked_example.md) show what each makes of the same scores. "
        + _WITNESSES.format(file="normalizers"),
    ]
    exact = {option.name: option for option in docstrings.options(ExactConfig)}
    for name in normalizers.names():
        normalizer = normalizers.get(name)
        more = [f"- **Set by** `--config.model.attention.normalizer={name}`"]
        if name in variants.names():
            more[0] += f", or [`variant={name}`]({name}.md)"
        if normalizer.ARRAYS:
            learned = ", ".join(f"`{array.name}` [{array.axes}]" for array in normalizer.ARRAYS)
            more.append(f"- **Learned**: {learned}")
        own = [exact[option] for option in normalizer.OPTIONS]
        parts.append(_section(name, normalizer, more, own, "model.attention", witnesses))
    return _page("Normalizers", parts)


def _section(name, module: ModuleType, facts, own, key: str, witnesses: Witnesses) -> str:
    first, rest = docstrings.split(module.__doc__)
    parts = [f"## {name}", f"**{markdown(first)}**", markdown(rest)]
    parts.append("\n".join([*facts, *witnesses.golden(name)]))
    if own:
        parts.append(_options_table(own, key))
    return "\n\n".join(part for part in parts if part)


# -- parts of pages --------------------------------------------------------------------------------


def _page(title: str, parts: list[str]) -> str:
    return "\n\n".join([f"# {title}", NOTE, *(part for part in parts if part)]) + "\n"


def _table(head: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows])


def _options_table(own: list[Option], key: str) -> str:
    rows = [f"| `{key}.{o.name}` | `{o.default!r}` | {cell(o.description)} |" for o in own]
    return _table(("option", "default", "what it is"), rows)


def _anchors(page: str, names: Iterable[str]) -> list[str]:
    return [f"[{name}]({page}.md#{name})" for name in names]


def _errors(measured: Any) -> str:
    how = "[measured](../results/errors/README.md)"
    if measured is None:
        return f"Not {how}."
    rows = [
        f"| {dtype} | {direction} | {found['absolute']:.1e} | {found['relative']:.1e} |"
        for dtype, directions in measured["errors"].items()
        for direction, found in directions.items()
    ]
    options = {
        name: tuple(value) if isinstance(value, list) else value  # JSON has no tuples
        for name, value in measured["options"].items()
    }
    given = ", ".join(f"`{name}={value!r}`" for name, value in options.items())
    under = f" with {given}" if given else ""
    head = ("inputs", "direction", "largest error", "over the largest value")
    return f"Of `{measured['function']}`{under}, as {how}:\n\n" + _table(head, rows)
