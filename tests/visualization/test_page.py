"""The page holds what it shows, and nothing else is fetched for it."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from visualization.made import TOKENS, example

from attention.tools import pictures
from attention.visualization.colours import DARK, LIGHT
from attention.visualization.measures import sums_of
from attention.visualization.page import page
from attention.visualization.page_script import SCRIPT
from attention.visualization.results import mean_over_examples

EXAMPLES = [example(1), example(2, below_zero=True)]


def made():
    return page(EXAMPLES, mean_over_examples(EXAMPLES), title="What <run> looks at", about="a & b")


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_maps_come_back_from_the_page():
    data = data_of(made())
    assert [one["title"] for one in data["examples"]] == ["1 (line 2)", "2 (line 4)"]
    assert [one["title"] for one in data["places"]] == ["encoder layer 1", "pooling"]
    for kept, given in zip(data["examples"], EXAMPLES, strict=True):
        assert kept["answer"] == given.answer
        for one, shown in zip(kept["maps"], given.maps, strict=True):
            assert (tuple(one["rows"]), tuple(one["columns"])) == (shown.rows, TOKENS)
            steps = np.frombuffer(base64.b64decode(one["data"]), "<u2").reshape(shown.values.shape)
            values = one["low"] + steps / 65535 * (one["high"] - one["low"])
            np.testing.assert_allclose(values, shown.values, atol=1e-5)


def test_numbers_that_mean_nothing_are_null():
    (pooled,) = data_of(made())["examples"][0]["maps"][1]["measures"]
    assert len(pooled) == 8 and pooled.count(None) == 3  # distance, diagonal, agreement


def test_a_jacobian_is_said_to_be_one():
    place = data_of(made())["places"][1]
    assert "Jacobian" in place["kind"] and place["note"] == "takes the largest"


def test_nothing_ends_the_script_early_and_texts_are_escaped():
    text = made()
    assert text.count("</script>") == 2
    assert "What &lt;run&gt; looks at" in text and "a &amp; b" in text and "<run>" not in text
    assert "§" not in text


def test_nothing_is_fetched():
    text = made()
    own = text.replace("http://www.w3.org/2000/svg", "").replace('href="data:,"', "")
    assert not re.search(r"https?:|\bsrc=|href=|url\(|@import|import\(|fetch\(|XMLHttp", own)
    assert "default-src 'none'" in text


def test_every_element_that_the_script_looks_for_is_there():
    names = set(re.findall(r'byId\("([a-z-]+)"\)', SCRIPT))
    assert len(names) > 10 and names <= set(re.findall(r'id="([a-z-]+)"', made()))


def test_the_page_suits_phones_paper_and_the_dark():
    text = made()
    for needed in (
        *('name="viewport"', "prefers-color-scheme: dark", "@media print", "max-width: 30rem"),
        *('role="radiogroup"', 'aria-live="polite"', "<noscript>", 'lang="en"'),
    ):
        assert needed in text


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_colours_are_those_of_other_pictures(colours):
    picture = pictures.heat_map(np.eye(2), rows="ab", columns="ab", title="t")
    assert all(colour in picture for colour in colours)


def test_a_mean_over_examples_weighs_queries():
    one, other = example(1), example(2)
    short = sums_of(other.maps[0].values[:, :1], punctuation=np.zeros(5, bool))
    short = other.maps[0]._replace(rows=("a",), sums=short)
    means = mean_over_examples([one, other._replace(maps=(short, other.maps[1]))])
    expected = (5 * one.maps[0].heads[1].first + short.heads[1].first) / 6
    assert means["encoder-1"][1].first == pytest.approx(expected)
    assert np.isnan(means["pooling"][0].distance)
