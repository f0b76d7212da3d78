"""The plots of a panel: learning curves, and the score against what it costs."""

from __future__ import annotations

import contextlib
import io
import logging
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")  # files only: never a window, whatever MPLBACKEND says

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from attention.comparison import formats, pareto
from attention.comparison.cautions import panel_name
from attention.comparison.labels import beside_points, spread
from attention.comparison.rows import Chosen, Row

logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its font cache

# Okabe and Ito's colours for all kinds of colour vision, without yellow and black; after them grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
OTHERS = "#8c8c8c"
INK = "#010203"  # of text, axes and the baseline; a page puts its own ink in this place
MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "attention",
    "font.family": "sans-serif",
    "font.size": 10,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}


class Plot(NamedTuple):
    """A plot as files, and what it shows in words."""

    name: str  # of its files, without an ending
    title: str
    description: str  # for those who do not see it
    svg: str
    png: bytes


class Cost(NamedTuple):
    """A cost that a score is plotted against."""

    key: str
    name: str
    label: str
    unit: str


COSTS = (
    Cost("train_seconds", "time", "training time", "s"),
    Cost("num_params", "parameters", "parameters", ""),
    Cost("flops", "flops", "training FLOPs", ""),
)


def draw(members: Sequence[Chosen], *, name: str) -> list[Plot]:
    """Returns the plots of a panel whose rows are in order of merit.

    Args:
      name: what names of files end with.
    """
    with _style():
        plots = [learning_curves(members, name=f"learning_curves-{name}")]
        for cost in COSTS:
            known = [c for c in members if getattr(c.row, cost.key) is not None]
            # At one cost there is nothing to weigh, and an axis would blow up what is none.
            if known and not pareto.are_equal([getattr(c.row, cost.key) for c in known]):
                plots.append(against(cost, known, name=f"quality_{cost.name}-{name}"))
    return plots


def draw_across(panels: Sequence[Sequence[Chosen]], key: str, *, name: str) -> Plot:
    """Returns the plot of `across` in the style of the others."""
    with _style():
        return across(panels, key, name=name)


@contextlib.contextmanager
def _style() -> Iterator[None]:
    """The looks of all plots; of characters that matplotlib's font lacks it says nothing: in SVG
    the viewer's fonts have them."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def learning_curves(members: Sequence[Chosen], *, name: str) -> Plot:
    """The dev score of each evaluation, its mean over seeds, with a band of ± one sd."""
    title = f"Learning curves: {panel_name(members[0].row)}"
    figure, axes = _new(title)
    metric = members[0].row.dev_metric
    ends = []
    for index, chosen in list(enumerate(members))[::-1]:  # the best on top
        steps, values = _curves(chosen, metric)
        if not len(steps):
            continue
        values = values * formats.scale_of(metric)
        mean, colour = values.mean(axis=0), _colour(members, index)
        dashed = _is_baseline(chosen.row)
        width = 0.6 if colour == OTHERS else 1.6
        axes.plot(steps, mean, color=colour, lw=width, ls="--" if dashed else "-")
        sd = values.std(axis=0, ddof=1) if len(values) > 1 else None
        if len(steps) == 1:  # a line and a band of one point are nothing
            axes.errorbar(steps, mean, yerr=sd, color=colour, lw=width, marker="o", ms=4, capsize=2)
        elif sd is not None and colour != OTHERS:
            axes.fill_between(steps, mean - sd, mean + sd, color=colour, alpha=0.15, lw=0)
        if colour != OTHERS:
            ends.append((float(mean[-1]), chosen.row.name, colour))
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_xlabel("step")
    axes.set_ylabel(f"dev {formats.metric_label(metric)}")
    spread(axes, ends)
    words = (
        f"dev {metric} against step, mean over seeds with a band of one standard deviation. "
        f"In order of the dev score: "
        f"{', '.join(f'{c.row.name} {formats.score(c.row.dev_mean, metric)}' for c in members)}."
    )
    return _plot(figure, name, title, words)


def _curves(chosen: Chosen, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps that all runs evaluated, and [runs, steps] scores."""
    curves = [dict(run.curve(metric)) for run in chosen.setting.runs.values()]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    return np.array(steps), np.array([[curve[step] for step in steps] for curve in curves])


def against(cost: Cost, members: Sequence[Chosen], *, name: str) -> Plot:
    """The score with ± one sd against a cost, and the front of those that no other row beats."""
    rows = [chosen.row for chosen in members]
    metric = rows[0].metric
    title = f"{formats.metric_label(metric)} against {cost.label}: {panel_name(rows[0])}"
    figure, axes = _new(title)
    scale = formats.scale_of(metric)
    xs = np.array([getattr(row, cost.key) for row in rows], float)
    ys = np.array([row.mean * scale for row in rows])
    if xs.min() > 0 and xs.max() / xs.min() > 8:
        axes.set_xscale("log")
    for index, row in enumerate(rows):
        sd = row.sd * scale if row.sd is not None else None
        axes.errorbar(
            xs[index], ys[index], yerr=sd, color=_colour(members, index), ms=6, lw=1, capsize=2,
            marker="*" if _is_baseline(row) else MARKERS[index % len(MARKERS)],
        )  # fmt: skip
    front = pareto.front(xs.tolist(), [row.gain for row in rows])
    if len(front) > 1:  # one point makes no line
        axes.plot(xs[front], ys[front], drawstyle="steps-post", color=OTHERS, lw=1, ls=":",
                  zorder=0, label="Pareto front")  # fmt: skip
        axes.legend(frameon=False, loc="lower right", fontsize=8)
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_xlabel(cost.label + (f" ({cost.unit})" if cost.unit else ""))
    axes.set_ylabel(f"{rows[0].split} {formats.metric_label(metric)}")
    axes.margins(0.12)
    order = sorted(range(len(rows)), key=lambda index: not _is_baseline(rows[index]))
    beside_points(axes, xs[order], ys[order], [rows[index].name for index in order])
    best = ", ".join(rows[index].name for index in front)
    words = (
        f"{rows[0].split} {metric} against {cost.label}, with one standard deviation over seeds. "
        f"On the Pareto front, from cheap to dear: {best}."
    )
    return _plot(figure, name, title, words)


def across(panels: Sequence[Sequence[Chosen]], key: str, *, name: str) -> Plot:
    """The score with ± one sd against a key of the config in which panels differ.

    Args:
      panels: rows in order of merit; the values of the key are numbers, and rise.
    """
    rows = panels[0][0].row
    metric, short = rows.metric, key.rpartition(".")[2]
    scale = formats.scale_of(metric)
    title = f"{formats.metric_label(metric)} against {short}: {rows.task} on {rows.dataset}"
    figure, axes = _new(title)
    order = list(dict.fromkeys(c.row.name for panel in reversed(panels) for c in panel))
    last = {c.row.name: c for panel in panels for c in panel}
    ends = []
    for index, variant in list(enumerate(order))[::-1]:
        points = [
            (dict(c.group.panel)[key], c.row.mean * scale, (c.row.sd or 0.0) * scale)
            for panel in panels
            for c in panel
            if c.row.name == variant
        ]
        xs, ys, sds = np.array(points, float).T
        colour = _colour([last[other] for other in order], index)
        base = _is_baseline(last[variant].row)
        axes.errorbar(xs, ys, yerr=sds, color=colour, lw=0.6 if colour == OTHERS else 1.6,
                      ls="--" if base else "-", marker="*" if base else "o", ms=4,
                      capsize=2)  # fmt: skip
        if colour != OTHERS:
            ends.append((float(ys[-1]), variant, colour))
    every = [dict(panel[0].group.panel)[key] for panel in panels]
    if every[0] > 0 and every[-1] / every[0] > 8:
        axes.set_xscale("log", base=2 if every[-1] / every[0] == 2 ** (len(every) - 1) else 10)
    axes.set_xticks(every, [f"{value:g}" for value in every])
    axes.minorticks_off()
    axes.set_xlabel(short)
    axes.set_ylabel(f"{rows.split} {formats.metric_label(metric)}")
    spread(axes, ends)
    best = "; ".join(f"{value:g}: {panel[0].row.name} {formats.score_text(panel[0].row)}"
                     for value, panel in zip(every, panels, strict=True))  # fmt: skip
    words = (
        f"{rows.split} {metric} against {short}, with one standard deviation over seeds. Best on "
        f"dev at each {short}: {best}."
    )
    return _plot(figure, name, title, words)


def _is_baseline(row: Row) -> bool:
    return row.baseline == row.name


def _colour(members: Sequence[Chosen], index: int) -> str:
    """The baseline has the ink, the best others the palette, the rest grey."""
    if _is_baseline(members[index].row):
        return INK
    before = sum(not _is_baseline(chosen.row) for chosen in members[:index])
    return PALETTE[before] if before < len(PALETTE) else OTHERS


def _new(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.2, 3.9), layout="constrained")
    axes = figure.subplots()
    axes.set_title("\n".join(textwrap.wrap(title, 52)), fontsize=9, loc="left",
                   parse_math=False)  # fmt: skip
    return figure, axes


def _plot(figure: Figure, name: str, title: str, description: str) -> Plot:
    svg, png = io.StringIO(), io.BytesIO()
    # No date and no version: the same runs give the same files.
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    figure.savefig(png, format="png", dpi=150, metadata={"Software": None, "Title": title})
    return Plot(name, title, description, svg.getvalue(), png.getvalue())
