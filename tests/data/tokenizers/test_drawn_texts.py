"""Some of many texts: each with the same chance, in their order, always the same ones."""

import numpy as np
import pytest

from attention.data.tokenizers import drawn_texts
from attention.data.tokenizers.drawn_texts import draw_texts

pytestmark = pytest.mark.fast

TEXTS = [f"{number:03d}" for number in range(200)]


@pytest.mark.parametrize("most", [None, 200, 1000])
def test_no_more_than_the_limit_are_all_kept(most):
    assert draw_texts(iter(TEXTS), most) == (TEXTS, 200)


def test_of_more_as_many_are_drawn_in_their_order():
    texts, number = draw_texts(iter(TEXTS), 50)
    assert number == 200 and len(set(texts)) == 50 and texts == sorted(texts)
    assert draw_texts(iter(TEXTS), 50).texts == texts
    assert draw_texts([], 5) == ([], 0)


def test_each_has_the_same_chance(monkeypatch):
    counts = np.zeros(20)
    for seed in range(2000):
        monkeypatch.setattr(drawn_texts, "SEED", seed)
        for text in draw_texts(TEXTS[:20], 5).texts:
            counts[int(text)] += 1
    # 500 each, with a standard deviation of √(2000 · ¼ · ¾) = 19
    assert counts.min() > 500 - 5 * 19 and counts.max() < 500 + 5 * 19
