"""Tables as text: for a terminal, Markdown, CSV, LaTeX."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Sequence

from attention.comparison.answer import answer
from attention.comparison.cautions import panel_name
from attention.comparison.columns import Column, Columns, columns
from attention.comparison.comparing import Comparison
from attention.comparison.rows import Row
from attention.comparison.shared import differences

_MOST = 12  # lines about runs left out, on a terminal
_TEX_COLUMNS = ("n", "95 % interval", "p seeds", "p examples", "params", "train time", "FLOPs")


def terminal(comparison: Comparison, *, width: int) -> str:
    """A table for each panel, with as many columns as fit, and the answers above them."""
    parts = []
    for members in comparison.panels().values():
        rows = [chosen.row for chosen in members]
        of = columns(rows)
        fitting = _fitting([of.name, *of.scores, *of.costs], rows, width)
        parts += [answer(members), _aligned(fitting, rows), *same_in_all(of)]
    parts += [_note(line) for line in comparison.cautions]
    first, *reasons = left_out(comparison)
    more = [f"  and {len(reasons) - _MOST} more: see details.json"] if len(reasons) > _MOST else []
    parts += [first, *reasons[:_MOST], *more]
    return "\n".join(parts) + "\n"


def _note(line: str) -> str:
    return f"note: {line}"


def same_in_all(of: Columns) -> list[str]:
    """A line of what the tables leave out, since it is the same in all rows; or none."""
    return [f"In all rows: {', '.join(of.same)}."] if of.same else []


def _fitting(every: Sequence[Column], rows: Sequence[Row], width: int) -> list[Column]:
    taken, used = [], -2
    for column in every:
        used += 2 + max(len(column.head), *(len(column.cell(row)) for row in rows))
        if taken and used > width:
            break
        taken.append(column)
    return taken


def _aligned(chosen: Sequence[Column], rows: Sequence[Row]) -> str:
    cells = [[c.head for c in chosen], *([c.cell(row) for c in chosen] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        texts = [
            text.rjust(width) if column.number else text.ljust(width)
            for text, width, column in zip(line, widths, chosen, strict=True)
        ]
        lines.append("  ".join(texts).rstrip())
    return "\n".join(["", lines[0], "-" * max(map(len, lines)), *lines[1:], ""])


def left_out(comparison: Comparison) -> list[str]:
    """How many runs were read, and each that no row counts, with the reason."""
    settled = sum(len(chosen.setting.runs) for chosen in comparison.chosen)
    others = sum(len(s.runs) for c in comparison.chosen for s in c.settings) - settled
    tuned = f", {others} are of settings that were not chosen" if others else ""
    # Of those that have ended well only the reason tells anything.
    endings = Counter(run.status for run, _ in comparison.rejected if run.status != "complete")
    listed = ", ".join(f"{count} {status}" for status, count in endings.items())
    lines = [
        f"read {len(comparison.runs)} runs: {settled} are in the table{tuned}, "
        f"{len(comparison.rejected)} could not be counted{f' ({listed})' if listed else ''}"
    ]
    return lines + [f"  {run.workdir}: {run.status}: {why}" for run, why in comparison.rejected]


def markdown(comparison: Comparison) -> str:
    """Scores and costs of all panels, the answers, the cautions and what was left out."""
    parts = []
    for members in comparison.panels().values():
        rows = [chosen.row for chosen in members]
        of = columns(rows)
        parts += [f"## {_plain_markdown(panel_name(rows[0]))}", _plain_markdown(answer(members))]
        for each in filter(None, (of.scores, of.costs)):
            table = [
                _pipes([c.head for c in (of.name, *each)]),
                _pipes(["---:" if c.number else ":---" for c in (of.name, *each)]),
                *(_pipes([_plain_markdown(c.cell(r)) for c in (of.name, *each)]) for r in rows),
            ]
            parts.append("\n".join(table))
        parts += map(_plain_markdown, same_in_all(of))
        if apart := differences(members):
            parts.append("Besides the mechanism and its options, the rows differ in:")
            parts.append("\n".join(f"- {_plain_markdown(line)}" for line in apart))
    if comparison.cautions:
        parts.append("\n".join(f"- {_plain_markdown(line)}" for line in comparison.cautions))
    lines = [_plain_markdown(line.strip()) for line in left_out(comparison)]
    parts.append("\n".join(f"- {line}" for line in lines))
    if comparison.signatures:
        parts.append("\n".join(f"sacreBLEU: `{text}`" for text in comparison.signatures))
    return "\n\n".join(parts) + "\n"


def _plain_markdown(text: str) -> str:
    """The text with what Markdown takes for HTML, tables or emphasis made harmless."""
    return re.sub(r"([\\`*|<])", r"\\\1", " ".join(text.split("\n")))


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def comma_separated(comparison: Comparison) -> str:
    """Every field of every row, unrounded; fields that JSON nests are JSON in their cell."""
    dictionaries = [chosen.row.to_dict() for chosen in comparison.chosen]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dictionaries[0]), lineterminator="\n")
    writer.writeheader()
    for entries in dictionaries:
        writer.writerow({key: _cell(value) for key, value in entries.items()})
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return value


def settings_table(comparison: Comparison) -> str:
    """CSV of every setting behind the rows, by its dev score: tests are no part of choosing."""
    text = io.StringIO()
    names = [
        *("task", "dataset", "size", "panel", "variant", "setting", "tuned", "chosen", "n_seeds"),
        *("dev_metric", "dev_mean", "workdirs"),
    ]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for chosen in comparison.chosen:
        row = chosen.row
        for setting in sorted(chosen.settings, key=lambda setting: -setting.dev):
            entries = {name: getattr(row, name) for name in (*names[:6], "dev_metric")}
            entries |= {
                "tuned": ", ".join(f"{key}={value}" for key, value in setting.tuned),
                "chosen": setting is chosen.setting,
                "n_seeds": len(setting.runs),
                "dev_mean": setting.dev,
                "workdirs": _cell([run.workdir for run in setting.runs.values()]),
            }
            writer.writerow(entries)
    return text.getvalue()


def latex(comparison: Comparison) -> str:
    """A `booktabs` table for each panel."""
    parts = [r"% needs \usepackage{booktabs}"]
    for members in comparison.panels().values():
        rows = [chosen.row for chosen in members]
        of = columns(rows)
        others = [c for c in (*of.scores[1:], *of.costs) if c.head in _TEX_COLUMNS]
        every = [of.name, of.scores[0], *others]
        caption = [f"{panel_name(rows[0])}:", answer(members), *same_in_all(of)]
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_tex(' '.join(caption))}}}",
            rf"\begin{{tabular}}{{{''.join('r' if c.number else 'l' for c in every)}}}",
            r"\toprule",
            _ampersands([c.head for c in every]),
            r"\midrule",
            *(_ampersands([c.cell(row) for c in every]) for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _ampersands(cells: Sequence[str]) -> str:
    # A bracket behind the \\ of the row before would be the argument of that.
    start = "{}" if cells[0].startswith("[") else ""
    return start + " & ".join(map(escape_tex, cells)) + r" \\"


_TEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "−": "$-$",
    "<": "$<$",
    ">": "$>$",
    "\n": " ",
}


def escape_tex(text: str) -> str:
    """The text with what LaTeX takes for commands made harmless."""
    return "".join(_TEX.get(character, character) for character in text)
