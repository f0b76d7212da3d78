"""The answer in plain words: which is best, and what differs from the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from attention.comparison.cautions import panel_name
from attention.comparison.formats import FRACTIONS, metric_name, score_text
from attention.comparison.rows import Chosen, Row
from attention.comparison.testing import BETTER, UNCLEAR, WORSE


def answer(members: Sequence[Chosen]) -> str:
    """Two or three sentences about the rows of a panel, of which the first is best on dev."""
    rows = [chosen.row for chosen in members]
    best = rows[0]
    unit = f"{best.n_seeds} seed{'s' * (best.n_seeds > 1)}"
    percent = " %" if best.metric in FRACTIONS else ""
    score = f"{best.split} {metric_name(best.metric)} {score_text(best)}{percent}, {unit}"
    if len(rows) == 1:
        return f"{_where(best)}: only {best.name} was run ({score})."
    level = [row.name for row in rows[1:] if row.dev_mean == best.dev_mean]
    others = f", level with {', '.join(level)}" if level else ""
    first = f"{_where(best)}, {best.name} is best on dev ({score}){others}."
    return " ".join([first, *_against_baseline(rows)])


def _where(row: Row) -> str:
    return f"On {panel_name(row).partition(' on ')[2]}"


def _against_baseline(rows: Sequence[Row]) -> list[str]:
    baseline = next((row.baseline for row in rows if row.baseline), None)
    if baseline is None:
        return ["There is no baseline among the rows, so no difference was tested."]
    others = [row for row in rows if row.name != baseline]
    named = {
        verdict: [row.name for row in others if row.verdict == verdict]
        for verdict in (BETTER, WORSE, UNCLEAR)
    }
    untested = [row.name for row in others if row.verdict is None]
    differ = len(named[BETTER]) + len(named[WORSE])
    tested = len(others) - len(untested)
    sentences = []
    if tested and not differ:
        return [
            f"Of {tested} tested, none differs significantly from {baseline}.",
            *_untested(untested),
        ]
    if tested:
        verb = "differs" if differ == 1 else "differ"
        text = f"{differ} of {tested} {verb} significantly from {baseline}"
        lists = [f"{v}: {', '.join(named[v])}" for v in (BETTER, WORSE) if named[v]]
        sentences.append(f"{text}{' (' + '; '.join(lists) + ')' if lists else ''}.")
    if named[UNCLEAR]:
        sentences.append(f"Not distinguishable from {baseline}: {', '.join(named[UNCLEAR])}.")
    return [*sentences, *_untested(untested)]


def _untested(names: Sequence[str]) -> list[str]:
    return [f"Not tested, for want of seeds: {', '.join(names)}."] if names else []
