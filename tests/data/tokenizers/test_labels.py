"""Labels as ids."""

from __future__ import annotations

import json

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


SWAPPED = {"names": ["b", "a"]}
ALTERED = {
    "cut": lambda content: "{",
    "of another shape": lambda content: "[]",
    "two names changed places": lambda content: json.dumps({**content, **SWAPPED}),
    "without a seal": lambda content: json.dumps({"names": content["names"]}),
    "another seal": lambda content: json.dumps({**content, "sha256": "0" * 64}),
}


@pytest.mark.parametrize("change", ALTERED)
def test_what_is_missing_or_altered_is_refused(tmp_path, change):
    with pytest.raises(UserError, match=r"labels\.json"):
        LabelSet.load(tmp_path)
    LabelSet(["a", "b"]).save(tmp_path)
    path = tmp_path / "labels.json"
    path.write_text(ALTERED[change](json.loads(path.read_text())))
    with pytest.raises(UserError, match=r"cannot read the tokenizer '.*labels\.json'"):
        LabelSet.load(tmp_path)
