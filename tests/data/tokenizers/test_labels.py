"""Labels as ids."""

from __future__ import annotations

import pytest

from attention.data.tokenizers.labels import UNKNOWN_LABEL, UNLABELLED, LabelSet
from attention.errors import UserError

pytestmark = pytest.mark.fast


def test_labels_are_sorted_and_unlabelled_is_none_of_them():
    labels = LabelSet.build([["VERB", "_"], ["NOUN", "VERB"]])
    assert labels.names == ("NOUN", "VERB")
    assert len(labels) == 2
    assert labels.encode(["VERB", "_", "NOUN", "ADJ"]).tolist() == [1, -1, 0, -2]
    assert (UNLABELLED, UNKNOWN_LABEL) == (-1, -2)
    assert labels.count_unknown(["VERB", "_", "ADJ", "X"]) == 2


def test_they_come_back_from_their_file(tmp_path):
    labels = LabelSet.build([["é", "`` x", "_", "\u2028"]])
    labels.save(tmp_path)
    assert LabelSet.load(tmp_path).names == labels.names
    (tmp_path / "labels.json").write_text("{")
    with pytest.raises(UserError, match=r"labels\.json"):
        LabelSet.load(tmp_path)
