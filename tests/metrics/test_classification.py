"""Confusion matrix and F1, against plain counting and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attention.metrics.classification import confusion_matrix, macro_f1

pytestmark = pytest.mark.fast


def plain_f1(gold: list[int], predicted: list[int], name: int) -> float:
    """Of one class: the harmonic mean of precision and recall, 0 where both are."""
    hits = sum(a == b == name for a, b in zip(gold, predicted, strict=True))
    if not hits:
        return 0.0
    precision, recall = hits / predicted.count(name), hits / gold.count(name)
    return 2 * precision * recall / (precision + recall)


def test_a_row_is_a_gold_class():
    matrix = confusion_matrix(np.array([0, 0, 0, 2]), np.array([0, 1, 1, 0]), 3)
    assert matrix.tolist() == [[1, 2, 0], [0, 0, 0], [1, 0, 0]]


def test_no_text_is_a_matrix_of_zeros():
    empty = np.zeros(0, np.int32)
    assert confusion_matrix(empty, empty, 2).tolist() == [[0, 0], [0, 0]]


def test_f1_by_hand():
    # Class 0: precision 3/4, recall 3/5; class 1: precision 2/4, recall 2/3.
    matrix = np.array([[3, 2], [1, 2]])
    assert macro_f1(matrix) == pytest.approx((2 / 3 + 4 / 7) / 2)


def test_f1_is_the_mean_over_classes_that_occur_or_are_predicted():
    generator = np.random.default_rng(0)
    for _ in range(20):
        gold = generator.integers(0, 4, 12).astype(np.int32)
        predicted = generator.integers(0, 5, 12)
        there = sorted({*gold.tolist(), *predicted.tolist()})
        expected = np.mean([plain_f1(gold.tolist(), predicted.tolist(), one) for one in there])
        assert macro_f1(confusion_matrix(gold, predicted, 6)) == pytest.approx(expected)


def test_nothing_right_is_zero_and_so_is_nothing_at_all():
    assert macro_f1(np.array([[0, 3], [2, 0]])) == 0.0
    assert macro_f1(np.zeros((2, 2), np.int64)) == 0.0
