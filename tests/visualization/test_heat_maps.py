"""Pictures: what is written on them, that any token can be, and that they repeat."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import numpy as np
import pytest
from visualization.made import TOKENS, example

from attention.visualization.folder import files_of
from attention.visualization.heat_maps import (
    BOTH,
    describe,
    draw,
    undrawable,
    write_picture,
    write_pictures,
)

pytestmark = pytest.mark.filterwarnings("error:.*Glyph:UserWarning")


def drawn(shown, title="t"):
    figure = draw(shown, title=title)
    panels = [axes for axes in figure.axes if axes.images]
    return figure, panels


def test_a_panel_for_each_head_with_all_tokens():
    shown = example().maps[0]
    figure, panels = drawn(shown)
    assert len(panels) == 2
    for head, panel in enumerate(panels):
        assert np.array_equal(panel.images[0].get_array(), shown.values[head])
        assert tuple(label.get_text() for label in panel.get_xticklabels()) == TOKENS
        assert panel.get_xlabel().startswith(f"head {head + 1}: ")
        assert panel.images[0].get_clim() == (0.0, pytest.approx(shown.values.max()))
    assert figure.get_suptitle() == "t\nscaled_dot · weights"


def test_a_jacobian_is_said_to_be_one():
    figure, _ = drawn(example().maps[1])
    assert "no weights: norm of the Jacobian" in figure.get_suptitle()
    assert "(takes the largest)" in figure.get_suptitle()


def test_weights_below_zero_have_another_hue():
    _, panels = drawn(example(below_zero=True).maps[0])
    low, high = panels[0].images[0].get_clim()
    assert panels[0].images[0].get_cmap() is BOTH and low == -high


def test_files(tmp_path):
    one = example()
    for folder, each_head in (("a", True), ("b", False)):
        pictures = tmp_path / folder / "pictures" / "example-1"
        write_pictures(one, pictures, run="run", each_head=each_head)
        found = {f"pictures/example-1/{path.name}" for path in pictures.iterdir()}
        planned = {name for name in files_of([one], each_head=each_head) if "pictures" in name}
        assert found == planned and len(found) == (8 if each_head else 4)
    for stem in ("encoder-1", "pooling"):  # the same twice
        for suffix in (".png", ".svg"):
            name = f"pictures/example-1/{stem}{suffix}"
            files = [tmp_path / folder / name for folder in "ab"]
            assert files[0].read_bytes() == files[1].read_bytes()
    pictures = tmp_path / "a" / "pictures" / "example-1"
    svg = (pictures / "encoder-1.svg").read_text(encoding="utf-8")
    for text in ("$a_b$", "字", "&lt;/script&gt;"):  # as text
        assert re.search(rf"<text[^>]*>{re.escape(text)}</text>", svg), text
    assert "<title>run, example 1: encoder layer 1</title>" in svg
    assert "keys in effect; largest from" in svg
    png = (pictures / "encoder-1.png").read_bytes()
    assert png.startswith(b"\x89PNG") and b"keys in effect" in png
    assert all(side > 300 for side in struct.unpack(">II", png[16:24]))


def test_control_characters_do_not_spoil_an_svg(tmp_path):
    tokens = ("\x07", "\x00b", "\ud800", "\uffff", "a\tb")
    shown = example().maps[0]._replace(rows=tokens, columns=tokens)
    write_picture(shown, tmp_path / "x", title="t")
    text = "".join(ElementTree.parse(tmp_path / "x.svg").getroot().itertext())
    assert "□b" in text and (tmp_path / "x.png").stat().st_size > 1000


def test_what_is_said_of_a_picture():
    shown = example().maps[0]
    row, column = np.unravel_index(np.argmax(shown.values[1]), (5, 5))
    assert f"head 2: {shown.heads[1].effective_keys:.1f} keys in effect" in describe(shown)
    assert f"to {TOKENS[column]}, {shown.values[1, row, column]:.2f}." in describe(shown)


def test_characters_without_a_font_are_named():
    assert undrawable(["plain", "▁żół", "∂‖"]) == ""
    assert undrawable(["a\U0010fffdb"]) == "\U0010fffd"
