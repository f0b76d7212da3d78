"""Pictures as SVG text: no plotting library, and nothing that a page would have to fetch."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np
from jaxtyping import Float

CELL, FONT, MARGIN = 46, 13, 10  # pixels

# Ground and ink change together, so a picture reads on a page of either colour. A cell's hue lies
# over the ground with the opacity of its value: 0 is the ground itself, in light and in dark.
_STYLE = """
.ground { fill: #ffffff } .ink, .low { fill: #1f2328 } .high { fill: #ffffff }
.plus { fill: #0a3d91 } .minus { fill: #a11d1d } .edge { fill: none; stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } .ink, .low { fill: #e6edf3 } .high { fill: #0d1117 }
.plus { fill: #79b8ff } .minus { fill: #ff8f85 } .edge { stroke: #3d444d } }
"""
_HIGH = 0.6  # from this opacity on, a number is written in the other ink


def heat_map(
    values: Float[np.ndarray, "t s"],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    largest: float | None = None,
    digits: int = 2,
) -> str:
    """Returns a heat map as SVG: a row for each query, a column for each key, numbers in the cells.

    Args:
        values: weights; negative ones have another hue, and a value that is not finite (a pair that
            is hidden) is an empty cell.
        rows, columns: names of the queries and of the keys.
        title: written above, and read out by screen readers.
        largest: the size of a value with the full hue; None = the largest in `values`.
        digits: after the point.

    Raises:
        ValueError: `values` does not have a row and a column for each name.
    """
    values = np.asarray(values, np.float64)
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"values of shape {values.shape} need as many names: there are {len(rows)} rows and "
            f"{len(columns)} columns"
        )
    sizes = np.abs(values[np.isfinite(values)])
    full = float(sizes.max(initial=0.0)) if largest is None else largest
    left = MARGIN + _width(rows)
    top = MARGIN + 2 * FONT + max(FONT, _width(columns) if _width(columns) > CELL else 0) + 6
    width = max(left + CELL * len(columns), _width([title]) + MARGIN) + MARGIN
    height = top + CELL * len(rows) + MARGIN
    drawn = [
        f'<text class="ink" x="{MARGIN}" y="{MARGIN + FONT}" font-weight="bold">'
        f"{escape(title)}</text>"
    ]
    drawn += [_column_name(name, left + CELL * j, top, columns) for j, name in enumerate(columns)]
    for i, name in enumerate(rows):
        y = top + CELL * i
        drawn.append(
            f'<text class="ink" x="{left - 6}" y="{y + CELL / 2 + FONT / 3:.1f}" '
            f'text-anchor="end">{escape(name)}</text>'
        )
        drawn += [
            _cell(float(value), left + CELL * j, y, full, digits)
            for j, value in enumerate(values[i])
        ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="{FONT}">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _cell(value: float, x: int, y: int, full: float, digits: int) -> str:
    square = f'x="{x}" y="{y}" width="{CELL}" height="{CELL}"'
    edge = f'<rect class="edge" {square}/>'
    if not math.isfinite(value):
        return edge
    opacity = min(abs(value) / full, 1.0) if full > 0.0 else 0.0
    hue, ink = "minus" if value < 0.0 else "plus", "high" if opacity >= _HIGH else "low"
    return (
        f'<rect class="{hue}" {square} fill-opacity="{opacity:.3f}"/>{edge}'
        f'<text class="{ink}" x="{x + CELL / 2:.1f}" y="{y + CELL / 2 + FONT / 3:.1f}" '
        f'text-anchor="middle">{value:.{digits}f}</text>'
    )


def _column_name(name: str, x: int, top: int, names: Sequence[str]) -> str:
    """Returns the text above a column, upright if all names are short, else turned."""
    at_x, at_y = x + CELL / 2, top - 6
    if _width(names) <= CELL:
        return (
            f'<text class="ink" x="{at_x:.1f}" y="{at_y}" text-anchor="middle">'
            f"{escape(name)}</text>"
        )
    at_x += FONT / 3
    return (
        f'<text class="ink" x="{at_x:.1f}" y="{at_y}" '
        f'transform="rotate(-90 {at_x:.1f} {at_y})">{escape(name)}</text>'
    )


def _width(texts: Sequence[str]) -> int:
    """Returns about how many pixels the longest text takes."""
    return round(0.62 * FONT * max((len(text) for text in texts), default=0)) + 8
