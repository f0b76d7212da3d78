"""The report as one HTML page that fetches nothing: for a screen, a phone, and paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from attention.comparison import formats, methods
from attention.comparison.answer import answer
from attention.comparison.cautions import panel_name
from attention.comparison.columns import Column, columns
from attention.comparison.comparing import Comparison
from attention.comparison.grouping import Items
from attention.comparison.page_style import SCRIPT, STYLE
from attention.comparison.plots import INK, Plot
from attention.comparison.rows import Chosen, Row
from attention.comparison.shared import differences, shared_settings
from attention.comparison.tables import left_out, same_in_all

Drawn = Mapping[tuple[str, ...], Sequence[Plot]]


def page(comparison: Comparison, drawn: Drawn, *, command: str) -> str:
    """The whole page.

    Args:
      drawn: the plots of each panel, and of those across panels with the key ().
      command: the command line that makes the report again.
    """
    panels = comparison.panels()
    variants = dict.fromkeys(chosen.row.variant for chosen in comparison.chosen)
    title = f"Comparison of {', '.join(variants)}"
    if len(title) > 80:
        title = f"Comparison of {len(variants)} variants"
    body = [
        f"<h1>{escape(title)}</h1>",
        "<section><h2>The answer</h2>",
        *(f'<p class="answer">{escape(answer(members))}</p>' for members in panels.values()),
        "</section>",
        *_list("Before you conclude", comparison.cautions),
    ]
    if drawn.get(()):
        body += ["<section><h2>Across settings</h2>", *_figures(drawn[()]), "</section>"]
    for key, members in panels.items():
        body += _panel(members, drawn.get(key, ()))
    body += _settings(comparison)
    first, *reasons = left_out(comparison)
    body += [f"<section><h2>Runs</h2><p>{escape(first)}</p>", *_items(reasons), "</section>"]
    body += _list("How the numbers were made", methods.lines(comparison))
    body += _reproduce(comparison, command)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + f"\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"<section><h2>{escape(title)}</h2>"
        yield from _items(lines)
        yield "</section>"


def _items(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield "<ul>"
        yield from (f"<li>{escape(line.strip())}</li>" for line in lines)
        yield "</ul>"


def _panel(members: Sequence[Chosen], plots: Sequence[Plot]) -> Iterator[str]:
    rows = [chosen.row for chosen in members]
    of = columns(rows)
    name = panel_name(rows[0])
    yield f"<section><h2>{escape(name)}</h2>"
    yield from _table(rows, [of.name, *of.scores], f"Scores: {name}")
    yield "<h3>What it cost</h3>"
    if of.costs:
        yield from _table(rows, [of.name, *of.costs], f"Costs: {name}")
    yield from (f"<p>{escape(line)}</p>" for line in same_in_all(of))
    yield "<details><summary>What the columns mean</summary><dl>"
    every = (of.name, *of.scores, *of.costs)
    yield from (f"<dt>{escape(c.head)}</dt><dd>{escape(c.meaning)}</dd>" for c in every)
    yield "</dl></details>"
    if apart := differences(members):
        yield "<p>Besides the mechanism and its options, the rows differ in:</p>"
        yield from _items(apart)
    same = shared_settings(members)
    yield f"<details><summary>What all rows share ({len(same)} keys of the config)</summary>"
    yield f"<p>{escape(', '.join(same))}</p></details>"
    yield from _figures(plots)
    yield "</section>"


def _figures(plots: Sequence[Plot]) -> Iterator[str]:
    yield '<div class="plots">'
    for plot in plots:
        words = escape(plot.description)
        yield f"<figure>{inline_svg(plot)}<figcaption>{words}</figcaption></figure>"
    yield "</div>"


def _table(rows: Sequence[Row], every: Sequence[Column], name: str) -> Iterator[str]:
    label = escape(name, quote=True)
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table><thead><tr>'
    for column in every:
        kind = ' class="number"' if column.number else ""
        yield f'<th scope="col"{kind} title="{escape(column.meaning)}">{escape(column.head)}</th>'
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr{_row_class(row)}>"
        for index, column in enumerate(every):
            text = escape(column.cell(row))
            if index == 0:
                yield f'<th scope="row">{text}</th>'
                continue
            value = column.number(row) if column.number else None
            sort = "" if value is None else f' data-value="{value!r}"'
            kind = ' class="number"' if column.number else ""
            yield f"<td{kind}{sort}>{text}</td>"
        yield "</tr>"
    yield "</tbody></table></div>"


def _row_class(row: Row) -> str:
    return ' class="baseline"' if row.baseline == row.name else ""


def _settings(comparison: Comparison) -> Iterator[str]:
    """Every tuned setting with its dev score, where several were tried."""
    tuned = [chosen for chosen in comparison.chosen if len(chosen.tried) > 1]
    if not tuned:
        return
    yield "<section><h2>Settings tried</h2><p>By dev score, the only one that chooses.</p>"
    for chosen in tuned:
        row = chosen.row
        yield f"<details><summary>{escape(row.name)} ({escape(panel_name(row))}): "
        yield f"{len(chosen.tried)} settings</summary><ul>"
        for setting in sorted(chosen.settings, key=lambda s: -s.dev):
            seeds = f"{len(setting.runs)} seed{'s' * (len(setting.runs) > 1)}"
            dev = formats.score(setting.dev, row.dev_metric)
            line = f"{dev} · {seeds} · {_named(setting.tuned)}"
            mark = " <strong>chosen</strong>" if setting is chosen.setting else ""
            yield f"<li>{escape(line)}{mark}</li>"
        scored = {setting.tuned for setting in chosen.settings}
        lost = [items for items in chosen.tried if items not in scored]
        yield from (f"<li>no score · {escape(_named(items))}</li>" for items in lost)
        yield "</ul></details>"
    yield "</section>"


def _named(items: Items) -> str:
    return ", ".join(f"{key}={value}" for key, value in items)


def _reproduce(comparison: Comparison, command: str) -> Iterator[str]:
    yield "<section><h2>To do it again</h2><p>This report, from the same runs:</p>"
    yield f"<pre>{escape(command)}</pre>"
    yield "<p>A run, from its saved config, into a new folder:</p>"
    run = comparison.chosen[0].row.workdirs[0]
    again = f"python train.py --config=configs/saved.py:{run} --workdir=NEW_FOLDER"
    yield f"<pre>{escape(again)}</pre><p>The runs of the rows:</p><dl>"
    for chosen in comparison.chosen:
        row = chosen.row
        yield f"<dt>{escape(row.name)} ({escape(panel_name(row))})</dt>"
        yield f"<dd>{escape(', '.join(row.workdirs))}</dd>"
    yield "</dl></section>"


def inline_svg(plot: Plot) -> str:
    """The plot as a part of a page: in the page's ink, with names of its own, read out as text."""
    svg = plot.svg[plot.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<title>.*?</title>", "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W", "-", plot.name)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    svg = svg.replace(INK, "currentColor").replace("fill: #ffffff", "fill: none")
    label = escape(f"{plot.title}. {plot.description}", quote=True)
    opening = re.sub(r' (width|height)="[^"]*"', "", svg[: svg.index(">")])
    return f'{opening} role="img" aria-label="{label}"{svg[svg.index(">") :]}'.rstrip()
