"""Probes of distance: what is asked stands where it should, and nothing else tells it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from attention.data import load_dataset, probes, sources
from attention.data.sources import delayed_copy, key_value_recall
from attention.data.tokenizers.labels import NO_LABEL
from attention.errors import UserError

TASK = "pos_tagging"


def examples_of(probe, distance: int, count: int):
    """Examples drawn as a split draws them, without storing any."""
    for index in range(count):
        bits = np.random.PCG64(np.random.SeedSequence([0, distance, index]))
        yield probe.draw(distance, lambda n, bits=bits: probes._next(bits, n))


@pytest.mark.fast
@pytest.mark.parametrize("distance", [1, 8, 100, 300])
def test_a_copy_is_of_the_token_that_far_before(distance):
    for words, labels in examples_of(delayed_copy, distance, 20):
        assert len(words) == len(labels) == delayed_copy.length(distance)
        assert labels[:distance] == [NO_LABEL] * distance
        assert len(labels) - distance == min(distance, 256)
        for place in range(distance, len(words)):
            assert labels[place] == words[place - distance]


@pytest.mark.fast
@pytest.mark.parametrize("distance", [4, 8, 32, 300])
def test_recall_is_of_the_value_beside_the_key(distance):
    reach = key_value_recall.reach_of(distance)
    distances = []
    for words, labels in examples_of(key_value_recall, distance, 20):
        assert len(words) == len(labels) == key_value_recall.length(distance)
        pairs, questions = words[::2], words[1::2]
        keys, values = [pair[0] for pair in pairs], [pair[1:] for pair in pairs]
        assert len(set(keys)) == len(keys)
        asked = [question for question in questions if question != key_value_recall.FILLER]
        assert len(asked) == key_value_recall.num_asked(distance) == len(set(asked)) > 0
        assert labels[::2] == [NO_LABEL] * len(keys)
        for place, question in enumerate(questions):
            label = labels[2 * place + 1]
            if question == key_value_recall.FILLER:
                assert label == NO_LABEL
                continue
            assert question[1:] == key_value_recall.ASKED
            at = keys.index(question[0])
            assert label == values[at]
            assert abs(place - at - reach.middle) < reach.width
            distances.append(2 * (place - at) + 1)
    assert np.mean(distances) == pytest.approx(distance, rel=0.26)
    most = max(distances.count(one) for one in set(distances)) / len(distances)
    assert most < 1.3 / reach.width + 0.03  # a place alone does not tell


@pytest.mark.fast
@pytest.mark.parametrize("probe", [delayed_copy, key_value_recall])
def test_nothing_but_what_is_asked_tells_the_label(probe):
    """Labels are even, and no place that stands still against the question beats chance."""
    hits: Counter = Counter()
    labels_seen: Counter = Counter()
    total = 0
    for words, labels in examples_of(probe, 32, 400):
        for place, label in enumerate(labels):
            if label == NO_LABEL:
                continue
            total += 1
            labels_seen[label] += 1
            hits.update(place - at for at, word in enumerate(words) if label in word)
    chance = 1 / probes.NUM_SYMBOLS
    spread = 5 * np.sqrt(chance / total)
    assert len(labels_seen) == probes.NUM_SYMBOLS
    assert max(labels_seen.values()) / total < chance + spread
    near = {back: count / total for back, count in hits.items() if back and abs(back) < 20}
    assert max(near.values()) < chance + spread
    # At the distance itself: always in a copy; in recall as often as that place is asked for.
    if probe is delayed_copy:
        assert hits[32] == total
    else:
        assert max(hits.values()) / total < 0.3


def test_splits_are_different_and_the_same_each_time(monkeypatch):
    monkeypatch.setattr(probes, "SPLITS", {"train": (400, 9), "dev": (99, 9), "test": (99, 9)})
    monkeypatch.setattr(probes, "FEWEST", 3)
    for name in ("delayed_copy", "key_value_recall"):
        data = load_dataset(name, task=TASK, options={"distance": 8})
        texts = [tuple(e["words"]) for split in data.splits.values() for e in split]
        assert list(data.splits) == ["train", "dev", "test"]
        assert len(set(texts)) == len(texts) == 9 + 2 * (6 if name == "delayed_copy" else 4)
        again = load_dataset(name, task=TASK, options={"distance": 8})
        assert again.split("dev")[2] == data.split("dev")[2]
        far = load_dataset(name, task=TASK, options={"distance": 9})
        hashes = {split.content_hash for split in (*data.splits.values(), *far.splits.values())}
        assert len(hashes) == 6
        counts = data.split("dev").counts
        assert counts["words"] - counts["unlabelled_words"] == sum(
            label != NO_LABEL for example in data.split("dev") for label in example["upos"]
        )


@pytest.mark.fast
def test_the_first_example_is_what_it_has_always_been():
    words, labels = next(examples_of(key_value_recall, 6, 1))
    assert " ".join(words) == "上c . 不g . 万b . 三k . 丈m . 丁l 万? 一i 丈? 丌e 三?"
    assert " ".join(labels) == "_ _ _ _ _ _ _ _ _ _ _ b _ m _ k"
    words, _ = next(examples_of(delayed_copy, 3, 1))
    assert " ".join(words) == "o n h a n h"


@pytest.mark.fast
def test_a_distance_out_of_reach_is_refused():
    with pytest.raises(UserError, match=r"data\.distance=3: key_value_recall takes 4 to 8192"):
        load_dataset("key_value_recall", task=TASK, options={"distance": 3})
    with pytest.raises(UserError, match=r"data\.distance=20000: delayed_copy takes 1 to 8192"):
        load_dataset("delayed_copy", task=TASK, options={"distance": 20_000})


@pytest.mark.fast
def test_a_distance_means_nothing_to_other_data():
    with pytest.raises(UserError, match=r"data\.distance=8 means nothing to dataset=turkish_treeb"):
        load_dataset("turkish_treebank", task=TASK, options={"distance": 8})
    assert "delayed_copy" in sources.names(TASK)
