"""`data.train_examples`: what a run then reads, learns its vocabulary from, and is named by."""

from __future__ import annotations

import pytest
from ml_collections import ConfigDict
from support.runs import small_config

from attention import configuration, tasks
from attention.configuration.fields import optional
from attention.configuration.saved import from_json, to_json
from attention.errors import UserError
from attention.training.experiment import open_dataset


def part_of(tmp_path, number: int | None) -> ConfigDict:
    config = small_config(tmp_path).unlock()
    config.data.train_examples = optional(number, int)
    return config.lock()


def test_data_and_vocabulary_are_those_of_the_part(tmp_path):
    few, every = (open_dataset(part_of(tmp_path, number)) for number in (5, None))
    assert len(few.split("train")) == 5 and len(every.split("train")) == 60
    assert few.split("train").content_hash != every.split("train").content_hash
    assert few.split("dev").content_hash == every.split("dev").content_hash
    fit = tasks.get("pos_tagging").Task.fit
    config = part_of(tmp_path, 5)
    known = fit(config, few.split("train")).words
    seen = {word for example in few.split("train") for word in example["words"]}
    assert set(known.words) <= seen
    assert len(known.words) < len(fit(config, every.split("train")).words.words)


def test_it_names_the_run(tmp_path):
    hashes = {configuration.config_hash(part_of(tmp_path, number)) for number in (5, 6, None)}
    assert len(hashes) == 3
    assert from_json(to_json(part_of(tmp_path, 5))).data.train_examples == 5


@pytest.mark.parametrize(("number", "message"), [(0, "an int of 1 or more"), (61, "has 60 train")])
def test_a_wrong_number_is_refused(tmp_path, number, message):
    with pytest.raises(UserError, match=rf"data\.train_examples={number}: .*{message}"):
        config = part_of(tmp_path, number)
        configuration.check(config)
        open_dataset(config)
