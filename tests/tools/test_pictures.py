"""Heat maps: what is drawn, what is escaped, and that nothing is fetched."""

from __future__ import annotations

import xml.etree.ElementTree as xml

import numpy as np
import pytest

from attention.tools import pictures

pytestmark = pytest.mark.fast

SVG = "{http://www.w3.org/2000/svg}"
VALUES = np.array([[0.25, 0.75, 0.0], [-0.5, np.nan, 1.5]])


def drawn(values=VALUES, rows=("a", "b"), columns=("x", "y", "z"), **given):
    text = pictures.heat_map(values, rows=rows, columns=columns, **{"title": "t", **given})
    return xml.fromstring(text)


def cells(picture):
    """The filled squares: hue and opacity."""
    return [
        (rect.get("class"), float(rect.get("fill-opacity")))
        for rect in picture.iter(f"{SVG}rect")
        if rect.get("fill-opacity")
    ]


def number(part, key):
    return float(part.get(key))


def texts(picture):
    return [text.text for text in picture.iter(f"{SVG}text")]


def test_a_cell_for_each_value_with_its_number():
    picture = drawn()
    squares = [("plus", 1 / 6), ("plus", 0.5), ("plus", 0.0), ("minus", 1 / 3), ("plus", 1.0)]
    assert [hue for hue, _ in cells(picture)] == [hue for hue, _ in squares]
    for (_, opacity), (_, expected) in zip(cells(picture), squares, strict=True):
        assert opacity == pytest.approx(expected, abs=1e-3)
    numbers = ["a", "0.25", "0.75", "0.00", "b", "-0.50", "1.50"]  # none for what is hidden
    assert texts(picture) == ["t", "x", "y", "z", *numbers]


def test_rows_are_queries_and_columns_keys():
    picture = drawn(np.arange(6.0).reshape(2, 3), digits=0)
    where = {t.text: (number(t, "x"), number(t, "y")) for t in picture.iter(f"{SVG}text")}
    assert where["1"][1] == where["2"][1] == pytest.approx(where["b"][1] - pictures.CELL)
    assert where["1"][0] == where["4"][0] == where["y"][0]


def test_largest_fixes_the_scale_and_bounds_it():
    assert [opacity for _, opacity in cells(drawn(largest=0.5))] == [0.5, 1.0, 0.0, 1.0, 1.0]


def test_zeros_and_hidden_pairs_alone_can_be_drawn():
    assert [opacity for _, opacity in cells(drawn(np.zeros((2, 3))))] == [0.0] * 6
    assert cells(drawn(np.full((2, 3), np.nan))) == []


def test_texts_are_escaped():
    words = ("<script>", "a & b"), ("]]>", "\"'", "字")
    picture = drawn(rows=words[0], columns=words[1], title="<b>")
    assert {"<b>", *words[0], *words[1]} <= set(texts(picture))
    assert not list(picture.iter(f"{SVG}script"))


def test_nothing_is_fetched_and_both_schemes_have_colours():
    text = pictures.heat_map(VALUES, rows="ab", columns="xyz", title="t")
    assert text.count("http") == 1 and "href" not in text and "url(" not in text
    assert "prefers-color-scheme: dark" in text


def test_everything_lies_inside_the_picture():
    picture = drawn(columns=("a rather long name", "y", "z"), title="t" * 60)
    width, height = number(picture, "width"), number(picture, "height")
    for part in picture.iter(f"{SVG}text"):
        assert 0 <= number(part, "x") <= width and 0 <= number(part, "y") <= height
    assert width > 0.6 * pictures.FONT * 60


def test_names_must_fit_the_values():
    with pytest.raises(ValueError, match=r"\(2, 3\).*3 rows"):
        drawn(rows=("a", "b", "c"))
