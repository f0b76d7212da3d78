"""Numbers of maps, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from attention.visualization.measures import sums_of
from attention.visualization.surfaces import is_punctuation

pytestmark = pytest.mark.fast

NONE = np.zeros(3, bool)


def only(values, punctuation=NONE, **given):
    (found,) = sums(values, punctuation=punctuation, **given).means()
    return found


def sums(*heads, punctuation=None, **given):
    values = np.array(heads, np.float64)
    none = np.zeros(values.shape[2], bool)
    punctuation = none if punctuation is None else punctuation
    return sums_of(values, punctuation=punctuation, **given)


def head_agreement(*heads):
    return [each.agreement for each in sums(*heads).means()]


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
    np.testing.assert_allclose(head_agreement(one, one), [1.0, 1.0])
    np.testing.assert_allclose(head_agreement(one, other), [0.0, 0.0], atol=1e-12)
    three = head_agreement(one, one, other)
    np.testing.assert_allclose(three, [0.5, 0.5, 0.0], atol=1e-12)


def test_agreement_is_scipys():
    values = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 5))
    distances = [jensenshannon(p, q, base=2) for p, q in zip(*values, strict=True)]
    expected = np.mean(1.0 - np.square(distances))
    np.testing.assert_allclose(head_agreement(*values), [expected, expected], rtol=1e-6)


def test_over_examples_each_row_with_weight_counts_once():
    """One row with weight of ten, on one key, and ten even ones."""
    nearly_empty = np.zeros((10, 8))
    nearly_empty[3, 0] = 1.0
    found = (sums(nearly_empty) + sums(np.full((10, 8), 1 / 8))).means()[0]
    assert found.entropy == pytest.approx(10 / 11 * math.log(8))  # 1.890, not 1.040
    assert found.effective_keys == pytest.approx(math.exp(found.entropy))
    assert found.first == pytest.approx((1 + 10 / 8) / 11)
    assert found.total == pytest.approx(11 / 20)


def test_over_examples_agreement_is_over_rows_with_weight_in_both_heads():
    one, other = np.eye(4), np.roll(np.eye(4), 1, axis=1)
    half = one * np.array([[1.0], [0.0], [0.0], [0.0]])
    # Alike in one row of the first example, in none of the four of the second.
    both = (sums(one, half) + sums(one, other)).means()
    assert [each.agreement for each in both] == pytest.approx([1 / 5, 1 / 5])
    # The third head has no weight in the second example, which says nothing of it.
    three = (sums(one, one, other) + sums(one, one, np.zeros((4, 4)))).means()
    assert [each.agreement for each in three] == pytest.approx([1 / 2, 1 / 2, 0.0])


def test_no_example_gives_what_means_nothing_a_meaning():
    empty = sums(np.zeros((3, 3))) + sums(np.zeros((3, 3)))
    assert all(math.isnan(x) for x in empty.means()[0][:7])
    text = sums([[0.5, 0.5, 0.0]], ordered=False) + sums([[1.0, 0.0, 0.0]], ordered=False)
    assert math.isnan(text.means()[0].distance) and text.means()[0].first == 0.75


def test_the_sums_of_one_head_keep_its_agreement():
    three = sums(np.eye(3), np.eye(3), np.roll(np.eye(3), 1, axis=1))
    assert [three.only(head).means()[0] for head in range(3)] == three.means()


def test_punctuation():
    for text in (",", "▁...", "￭'￭", "。", "$", "<", "«"):
        assert is_punctuation(text), text
    for text in ("a.", "</s>", "<s>", "▁", "", "<0xC3>", "3"):
        assert not is_punctuation(text), text
