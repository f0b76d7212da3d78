"""One self-contained page: choose example, layer, head and token, by mouse, finger or keyboard."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from attention import variants
from attention.visualization.maps import TITLES
from attention.visualization.measures import Measures
from attention.visualization.page_script import SCRIPT
from attention.visualization.page_style import style
from attention.visualization.results import Example, Shown

# Heads of the table, and what they mean.
COLUMNS = {
    "entropy": ("entropy", "−Σ p log p in nats; 0: all weight on one key"),
    "effective_keys": ("keys in effect", "e to the entropy: so many keys of equal weight have it"),
    "distance": ("distance", "mean distance from the diagonal, in keys"),
    "diagonal": ("diagonal", "share of the key nearest to the diagonal"),
    "first": ("first", "share of the first key"),
    "punctuation": ("punctuation", "share of keys that are punctuation"),
    "agreement": ("agreement", "how alike the rows of the other heads are, 0 to 1"),
    "total": ("total", "sum of a query's weights, as they are"),
}


def page(
    examples: Sequence[Example], means: Mapping[str, Sequence[Measures]], *, title: str, about: str
) -> str:
    """Returns the page as HTML text.

    Args:
        examples: what can be chosen.
        means: numbers over all examples, by place.
        title: of the page.
        about: a line below it: which run, step and file.
    """
    data = {
        "examples": [_example(one) for one in examples],
        "places": [_place(shown, means) for shown in examples[0].maps],
    }
    # Inside a script element "</" would end it, and "<!--" confuse it.
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name, _ in COLUMNS.values())
    meaning = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in COLUMNS.values()
    )
    filled = {
        **{"TITLE": escape(title), "ABOUT": escape(about), "HEADS": heads, "MEANING": meaning},
        **{"STYLE": style(), "SCRIPT": SCRIPT, "DATA": text},
    }
    parts = [filled.get(part, part) for part in TEMPLATE.split("§")]
    return "".join(parts)


def _example(example: Example) -> dict[str, Any]:
    return {
        "title": f"{example.number} (line {example.line})",
        "answer": example.answer,
        "maps": [_map(shown) for shown in example.maps],
    }


def _map(shown: Shown) -> dict[str, Any]:
    low, high = float(np.min(shown.values, initial=0.0)), float(np.max(shown.values, initial=0.0))
    steps = (shown.values.astype(np.float64) - low) / ((high - low) or 1.0) * 65535
    packed = np.round(steps).astype("<u2").tobytes()
    return {
        **{"rows": shown.rows, "columns": shown.columns, "names": shown.names},
        **{"low": low, "high": high, "data": base64.b64encode(packed).decode("ascii")},
        "measures": [_numbers(one) for one in shown.heads],
    }


def _place(shown: Shown, means: Mapping[str, Sequence[Measures]]) -> dict[str, Any]:
    found = shown.found
    return {
        "title": found.place.title,
        "kind": TITLES[found.kind],
        "variant": found.variant,
        "note": found.note,
        "about": about_variant(found.variant),
        "axes": shown.axes,
        "measures": [_numbers(one) for one in means[found.place.name]],
    }


def about_variant(name: str) -> str:
    """Returns the first line of what a variant says of itself; "" for none."""
    return (variants.get(name).__doc__ or "").partition("\n")[0] if name else ""


def _numbers(one: Measures) -> list[float | None]:
    values = one._asdict()
    return [None if math.isnan(values[name]) else round(values[name], 6) for name in COLUMNS]


TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<link rel="icon" href="data:,">
<title>§TITLE§</title>
<style>§STYLE§</style>
</head>
<body>
<h1>§TITLE§</h1>
<p class="quiet">§ABOUT§</p>
<noscript><p>This page draws by script. The same maps are in pictures/, and the numbers in
measures.csv.</p></noscript>
<form class="controls" onsubmit="return false">
<label>example <select id="example"></select></label>
<label>layer <select id="place"></select></label>
</form>
<p>The model's answer: <span id="answer"></span></p>
<p><strong id="what"></strong><br><span class="quiet" id="note"></span></p>
<h2 id="heads-are">Heads</h2>
<div class="heads" id="heads" role="radiogroup" aria-labelledby="heads-are"></div>
<h2>Query: <span id="queries-are"></span></h2>
<div class="tokens" id="queries" role="radiogroup" aria-labelledby="queries-are"></div>
<p class="quiet keys">Tab to a token, then <kbd>←</kbd> <kbd>→</kbd> token, <kbd>↑</kbd>
<kbd>↓</kbd> head, <kbd>Page Up</kbd> <kbd>Page Down</kbd> layer.</p>
<h2>What it reads: <span id="keys-are"></span></h2>
<div class="tokens" id="keys" role="list"></div>
<p id="said" aria-live="polite"></p>
<h2>All queries</h2>
<p class="quiet">A row for each query, a column for each key; the frame is the query chosen above.
The deepest colour is <span id="largest"></span>, the largest size in this layer and example.</p>
<div class="wide" id="map" tabindex="0" role="region" aria-label="heat map"></div>
<h2>Numbers</h2>
<p><label><input type="checkbox" id="whole"> over all examples</label></p>
<div class="wide" tabindex="0" role="region" aria-label="numbers of each head"><table>
<thead><tr><th scope="col">head</th>§HEADS§</tr></thead>
<tbody id="measures"></tbody></table></div>
<details><summary>What they mean</summary><dl>§MEANING§</dl></details>
<script type="application/json" id="data">§DATA§</script>
<script>§SCRIPT§</script>
</body>
</html>
"""
