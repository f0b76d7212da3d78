"""Heat maps as PNG and SVG, by matplotlib: one picture for each place, a panel for each head."""

from __future__ import annotations

import logging
import math
import re
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import font_manager, rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from attention.visualization.colours import LIGHT
from attention.visualization.maps import TITLES
from attention.visualization.results import Example, Shown

log = logging.getLogger(__name__)

PANEL = 4.2  # inches, of a map of twenty tokens or fewer
LARGEST_PANEL = 9.0
WIDEST = 18.0  # inches, of a picture, unless one panel is wider
LONGEST = 24  # characters of a token, of which the page has all
DPI = 100
# Fonts with characters that matplotlib's own lacks: Chinese, Japanese, Korean first.
OTHER_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC"),
    *("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "PingFang SC", "Hiragino Sans GB"),
    *("Microsoft YaHei", "SimHei", "Arial Unicode MS", "Noto Sans", "FreeSans"),
)
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be found, and read out
    "svg.hashsalt": "attention",  # the same picture is the same file
    "axes.edgecolor": LIGHT.edge,
    "text.color": LIGHT.ink,
    "text.parse_math": False,  # a $ is a token like any other
    "xtick.color": LIGHT.ink,
    "ytick.color": LIGHT.ink,
}
# Characters that XML, and so SVG, cannot hold, and others without a shape.
_SHAPELESS = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ABOVE = LinearSegmentedColormap.from_list("above", [LIGHT.ground, LIGHT.plus])
BOTH = LinearSegmentedColormap.from_list("both", [LIGHT.minus, LIGHT.ground, LIGHT.plus])


def write_pictures(example: Example, folder: Path, *, run: str, each_head: bool = False) -> None:
    """Writes FOLDER/<place>.png and .svg for each place of an example.

    Args:
        run: what the model is called on the pictures.
        each_head: <place>-head-<number> as well, a picture for each head.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for shown in example.maps:
        title = f"{run}, example {example.number}: {shown.found.place.title}"
        stem = folder / shown.found.place.name
        write_picture(shown, stem, title=title)
        for head in range(len(shown.values)) if each_head and len(shown.values) > 1 else ():
            one = stem.with_name(f"{stem.name}-head-{head + 1}")
            write_picture(shown.only(head), one, title=f"{title}, head {head + 1}")


def write_picture(shown: Shown, stem: Path, *, title: str) -> None:
    """Writes STEM.png and STEM.svg, with what is seen said in words in their metadata."""
    settings: Any = {**SETTINGS, "font.family": fonts()}
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # said once, by `undrawable`
        figure = draw(shown, title=title)
        for suffix, own in ((".png", {"Software": None}), (".svg", {"Date": None})):
            path = stem.with_name(stem.name + suffix)
            metadata = {"Title": title, "Description": printable(describe(shown)), **own}
            figure.savefig(path, dpi=DPI, metadata=metadata)


def draw(shown: Shown, *, title: str) -> Figure:
    """Draws the panels of all heads on one scale, with what is shown written above."""
    heads, rows, columns = shown.values.shape
    side = PANEL * min(max(max(rows, columns) / 20, 1.0), LARGEST_PANEL / PANEL)
    width, height = side, max(side * rows / columns, 0.5)
    if rows > columns:
        width, height = max(side * columns / rows, 1.2), side
    across = max(1, min(heads, math.ceil(math.sqrt(heads)), int(WIDEST // (width + 0.5))))
    down = math.ceil(heads / across)
    longest = max(len(_short(name)) for name in (*shown.rows, *shown.columns))
    names = 0.075 * longest + 0.3
    size = (max(across * width + names + 1.2, 6.5), down * (height + names + 0.4) + 1.2)
    figure = Figure(figsize=size, layout="constrained", facecolor=LIGHT.ground)
    FigureCanvasAgg(figure)  # needs no window, whatever backend the environment names
    figure.suptitle(f"{title}\n{subtitle(shown)}", fontsize=10)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    largest, colours = _scale(shown.values)
    lowest = -largest if colours is BOTH else 0.0
    for head, panel in enumerate(axes[:heads]):
        image = panel.imshow(
            shown.values[head], cmap=colours, vmin=lowest, vmax=largest, aspect="auto"
        )
        _name_axes(panel, shown, head, points=72 * width / columns)
    for panel in axes[heads:]:
        panel.set_visible(False)
    figure.colorbar(image, ax=list(axes[:heads]), shrink=0.8, pad=0.02, aspect=30)
    figure.supylabel(f"rows: {shown.axes[0]}", fontsize=9)
    figure.supxlabel(f"columns: {shown.axes[1]}", fontsize=9)
    return figure


def describe(shown: Shown) -> str:
    """Returns in words what a picture shows: the alternative text."""
    queries, keys = shown.axes
    parts = [f"{TITLES[shown.found.kind]}; rows: {queries}, columns: {keys}."]
    for head, numbers in enumerate(shown.heads):
        row, column = np.unravel_index(
            np.argmax(np.abs(shown.values[head])), shown.values.shape[1:]
        )
        parts.append(
            f"{shown.names[head]}: {numbers.effective_keys:.1f} keys in effect; largest from "
            f"{shown.rows[row]} to {shown.columns[column]}, {shown.values[head, row, column]:.2f}."
        )
    return " ".join(parts)


@cache
def fonts() -> tuple[str, ...]:
    """Returns the families to look for characters in, as far as they are installed."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in OTHER_FONTS if name in installed))


def undrawable(texts: Sequence[str]) -> str:
    """Returns the characters that no font of `fonts` has, each once: PNGs show boxes for them."""
    drawable: set[int] = set()
    for family in fonts():
        path = font_manager.findfont(family)
        drawable |= set(font_manager.get_font(path).get_charmap())
    return "".join(sorted({char for text in texts for char in text if ord(char) not in drawable}))


def subtitle(shown: Shown) -> str:
    """Returns what stands at a place and what is shown of it."""
    found = shown.found
    parts = [found.variant, TITLES[found.kind]]
    return " · ".join(part for part in parts if part) + (f"\n({found.note})" if found.note else "")


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def printable(text: str) -> str:
    """Returns the text with boxes for control characters and the like."""
    return _SHAPELESS.sub("□", text)


def _scale(values: np.ndarray) -> tuple[float, Colormap]:
    largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
    return largest, BOTH if np.min(values, initial=0.0) < 0.0 else ABOVE


def _name_axes(panel: Any, shown: Shown, head: int, *, points: float) -> None:
    """Writes tokens along the axes of a panel; `points` is how wide a cell is."""
    size = max(3.0, min(9.0, 0.8 * points))
    columns, rows = ([_short(name) for name in names] for names in (shown.columns, shown.rows))
    panel.set_xticks(range(len(columns)), columns, rotation=90, fontsize=size)
    panel.set_yticks(range(len(rows)), rows, fontsize=size)
    panel.tick_params(length=0)
    panel.xaxis.tick_top()
    in_effect = f"{shown.heads[head].effective_keys:.1f} keys in effect"
    panel.set_xlabel(f"{shown.names[head]}: {in_effect}")
