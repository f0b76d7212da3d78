"""Who sees whom, against a definition pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from support.visibility import visible_pairs

from attention.ops import masks

pytestmark = pytest.mark.fast
SHAPE = (2, 3, 4, 5)  # b n t s
CASES = {
    "padding mask": {"mask": np.array([[1, 1, 0, 1, 0], [0, 0, 1, 1, 1]], bool)[:, None, None]},
    "one mask for all": {"mask": np.ones((1, 1, 1, 1), bool)},
    "mask by head": {"mask": np.array([True, False, True])[None, :, None, None]},
    "offset": {"causal": True, "query_offset": 1},
    "offset by row": {"causal": True, "query_offset": np.array([0, 3])},
    "before all keys": {"causal": True, "query_offset": -2},
    "segments": {
        "segment_ids": np.array([[1, 1, 2, 0], [0, 7, 7, 7]]),
        "key_segment_ids": np.array([[2, 1, 0, 0, 1], [7, 7, 7, 0, 0]]),
    },
}
CASES["all of them"] = {
    **CASES["padding mask"],
    **CASES["offset by row"],
    **CASES["segments"],
}


@pytest.mark.parametrize("case", CASES)
def test_visible_is_the_definition(case):
    given = CASES[case]
    got = masks.visible(masks.conditions(SHAPE, **given))
    np.testing.assert_array_equal(np.broadcast_to(got, SHAPE), visible_pairs(SHAPE, **given))


def test_square_causal_starts_at_zero():
    got = masks.visible(masks.conditions((1, 1, 4, 4), causal=True))
    np.testing.assert_array_equal(got[0, 0], np.tril(np.ones((4, 4), bool)))


def test_no_condition_is_no_mask():
    assert masks.visible(masks.conditions(SHAPE)) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mask": np.ones((2, 5), bool)}, ["(2, 5)", "rank 4"]),
        ({"mask": np.ones((2, 4, 5), bool)}, ["(2, 4, 5)", "[b 1 1 s]"]),
        ({"mask": np.ones((2, 1, 1, 5), np.int32)}, ["int32", "True = may attend"]),
        ({"mask": np.ones((2, 1, 1, 4), bool)}, ["(2, 1, 1, 4)", "(2, 3, 4, 5)"]),
        ({"causal": True}, ["4 queries", "5 keys", "query_offset"]),
        ({"segment_ids": np.ones((2, 4), np.int32)}, ["key_segment_ids"]),
        ({"causal": True, "query_offset": np.zeros(3, np.int32)}, ["(3,)", "2"]),
    ],
)
def test_refusals_say_what_and_why(given, words):
    with pytest.raises(ValueError) as caught:
        masks.conditions(SHAPE, **given)
    for word in words:
        assert word in str(caught.value)
