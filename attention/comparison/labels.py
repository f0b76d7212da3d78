"""Names written beside what they name, without lying over each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

_SIZE = 8  # points
LONGEST = 36  # characters of a name: a plot is not to be made small for it
_HEIGHT, _WIDTH = 1.25 * _SIZE, 0.6 * _SIZE  # of a line and a character, about

_LEADER = {"arrowstyle": "-", "color": "#8c8c8c", "lw": 0.6, "shrinkA": 0, "shrinkB": 3}

Box = tuple[float, float, float, float]  # left, bottom, right, top in points


def spread(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Writes (height, name, colour) to the right of the axes, moved apart where they would touch.

    A legend would make the reader match colours; these stand where their line ends, joined to it.
    Names are in the ink: pale colours are fine for lines and too faint for text.
    """
    _lay_out(axes)
    scale, window = 72 / axes.figure.dpi, axes.get_window_extent()
    points = [axes.transData.transform((0, y))[1] * scale for y, _, _ in ends]
    moved = within(apart(sorted(points), _HEIGHT), window.y0 * scale, window.y1 * scale)
    for index, y in zip(np.argsort(points), moved, strict=True):
        value, name, colour = ends[index]
        axes.annotate(
            short(name), (1.0, value), xycoords=("axes fraction", "data"), fontsize=_SIZE,
            xytext=(12, y - points[index]), textcoords="offset points", va="center",
            annotation_clip=False, parse_math=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 1.2, "shrinkA": 1, "shrinkB": 0,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def short(name: str) -> str:
    """A name as a plot has it; the table has all of it."""
    if _width(name) <= LONGEST:
        return name
    kept = next(end for end in range(len(name), 0, -1) if _width(name[:end]) < LONGEST)
    return f"{name[:kept]}…"


def _width(text: str) -> int:
    """In characters; a Chinese one is as wide as two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _lay_out(axes: Axes) -> None:
    """Gives the axes the place they will have: before, positions in points mean nothing."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Sorted heights moved as little as keeps them `gap` apart: clusters stay centred."""
    clusters: list[tuple[float, int]] = []  # (centre, members)
    for height in heights:
        clusters.append((height, 1))
        while len(clusters) > 1:
            (a, n), (b, m) = clusters[-2:]
            if b - a >= gap * (n + m) / 2:
                break
            clusters[-2:] = [((a * n + b * m) / (n + m), n + m)]
    return [c + gap * (i - (n - 1) / 2) for c, n in clusters for i in range(n)]


def within(heights: Sequence[float], low: float, high: float) -> list[float]:
    """Sorted heights, those at either end pressed inward; the order and the gaps stay."""
    if not heights:
        return []
    up = max(0.0, low - heights[0])
    down = max(0.0, heights[-1] - high)
    gaps = np.diff(heights)
    if up and down:  # more than there is room for: as they are
        return list(heights)
    found = list(heights)
    if down:
        found[-1] -= down
        for i in range(len(found) - 2, -1, -1):
            found[i] = min(found[i], found[i + 1] - min(gaps[i], _HEIGHT))
    elif up:
        found[0] += up
        for i in range(1, len(found)):
            found[i] = max(found[i], found[i - 1] + min(gaps[i - 1], _HEIGHT))
    return found


def beside_points(axes: Axes, xs: np.ndarray, ys: np.ndarray, names: Sequence[str]) -> None:
    """Writes a name beside each point, at the first place where it covers nothing yet.

    The names that come first have the choice. Those that do not stand right beside their point are
    joined to it.
    """
    _lay_out(axes)
    places = axes.transData.transform(np.stack([xs, ys], axis=1)) * 72 / axes.figure.dpi
    window = axes.get_window_extent()
    scale = 72 / axes.figure.dpi
    inside = (window.x0 * scale, window.y0 * scale, window.x1 * scale, window.y1 * scale)
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    for (x, y), value, name in zip(places, zip(xs, ys, strict=True), names, strict=True):
        options = list(_around(_width(short(name)) * _WIDTH))
        free = [o for o in options if _fits(_box(x, y, o), taken, inside)]
        if not free:
            continue  # better no name than an unreadable one: the table has it
        dx, dy, side, _ = free[0]
        taken.append(_box(x, y, free[0]))
        leader = _LEADER | {"relpos": (0 if side == "left" else 1, 0.5)} if dy else None
        axes.annotate(
            short(name), value, xytext=(dx, dy), textcoords="offset points", fontsize=_SIZE,
            va="center", ha=side, parse_math=False, arrowprops=leader,
        )  # fmt: skip


Offer = tuple[float, float, str, float]


def _around(width: float) -> Iterator[Offer]:
    for lines in (0, 1, -1, 2, -2, 3, -3, 4, -4):
        dx = 7 if abs(lines) < 2 else 16  # past what stands above and below the point
        yield dx, lines * _HEIGHT, "left", width
        yield -dx, lines * _HEIGHT, "right", width


def _box(x: float, y: float, offer: Offer) -> Box:
    dx, dy, side, width = offer
    start = x + dx if side == "left" else x + dx - width
    return start, y + dy - _HEIGHT / 2, start + width, y + dy + _HEIGHT / 2


def _fits(box: Box, taken: Sequence[Box], inside: Box) -> bool:
    left, bottom, right, top = inside
    if box[0] < left or box[1] < bottom or box[2] > right or box[3] > top:
        return False
    return not any(
        box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
        for other in taken
    )
