"""Numbers of maps, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from attention.visualization.measures import head_agreement, measures
from attention.visualization.surfaces import is_punctuation

pytestmark = pytest.mark.fast

NONE = np.zeros(3, bool)


def only(values, punctuation=NONE, **given):
    (found,) = measures(np.array([values], np.float32), punctuation=punctuation, **given)
    return found


def test_even_rows():
    found = only(np.full((3, 3), 1 / 3))
    assert found.entropy == pytest.approx(math.log(3)) and found.effective_keys == pytest.approx(3)
    assert found.diagonal == pytest.approx(1 / 3) and found.first == pytest.approx(1 / 3)
    # Distances 0 1 2, 1 0 1 and 2 1 0: 8 in 9 cells.
    assert found.distance == pytest.approx(8 / 9)
    assert found.total == pytest.approx(1.0) and math.isnan(found.agreement)


def test_one_key_each():
    found = only(np.eye(3))
    assert (found.entropy, found.distance, found.diagonal) == (0.0, 0.0, 1.0)
    assert found.effective_keys == 1.0 and found.first == pytest.approx(1 / 3)
    found = only(np.eye(3)[::-1])
    assert found.distance == pytest.approx(4 / 3) and found.diagonal == pytest.approx(1 / 3)


def test_punctuation_is_of_keys():
    found = only([[0.2, 0.8, 0.0], [0.6, 0.4, 0.0]], np.array([False, True, False]))
    assert found.punctuation == pytest.approx(0.6) and found.first == pytest.approx(0.4)


def test_the_diagonal_of_two_lengths_joins_first_pair_to_last():
    # Of 3 queries and 5 keys it passes keys 0, 2 and 4.
    values = np.zeros((3, 5))
    values[[0, 1, 2], [0, 2, 4]] = 1.0
    found = only(values, np.zeros(5, bool))
    assert found.diagonal == 1.0 and found.distance == 0.0
    found = only(np.eye(3, 5), np.zeros(5, bool))
    assert found.distance == pytest.approx((0 + 1 + 2) / 3)
    assert only([[0.0, 1.0]], np.zeros(2, bool)).distance == 1.0  # one query: from the first key


def test_weights_below_zero_and_other_sums_become_shares():
    found = only([[0.5, -0.5, 0.0]] * 3)
    assert found.entropy == pytest.approx(math.log(2)) and found.total == 0.0
    assert only([[4.0, 0.0, 0.0]] * 3).first == 1.0


def test_rows_without_weight_are_left_out():
    found = only([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert found.diagonal == 1.0 and found.entropy == 0.0
    assert found.total == pytest.approx(1 / 3)
    assert all(math.isnan(x) for x in only(np.zeros((3, 3)))[:6])


def test_a_text_as_a_whole_has_no_place():
    found = only([[0.5, 0.5, 0.0]], ordered=False)
    assert math.isnan(found.distance) and math.isnan(found.diagonal)
    assert found.effective_keys == pytest.approx(2.0)


def test_agreement():
    one, other = np.eye(3), np.roll(np.eye(3), 1, axis=1)
    np.testing.assert_allclose(head_agreement(np.stack([one, one])), [1.0, 1.0])
    np.testing.assert_allclose(head_agreement(np.stack([one, other])), [0.0, 0.0], atol=1e-12)
    three = head_agreement(np.stack([one, one, other]))
    np.testing.assert_allclose(three, [0.5, 0.5, 0.0], atol=1e-12)


def test_agreement_is_scipys():
    values = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 5))
    distances = [jensenshannon(p, q, base=2) for p, q in zip(*values, strict=True)]
    expected = np.mean(1.0 - np.square(distances))
    np.testing.assert_allclose(head_agreement(values), [expected, expected], rtol=1e-6)


def test_punctuation():
    for text in (",", "▁...", "￭'￭", "。", "$", "<", "«"):
        assert is_punctuation(text), text
    for text in ("a.", "</s>", "<s>", "▁", "", "<0xC3>", "3"):
        assert not is_punctuation(text), text
