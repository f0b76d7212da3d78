"""The recorder of config reads notices a leaf that nothing reads."""

from __future__ import annotations

import dataclasses

import pytest
from ml_collections import ConfigDict
from support.recording import RecordingConfig, recorded_fields, unread

from attention.configuration import config_hash, from_json, to_json
from attention.configuration.fields import normalized, optional

pytestmark = pytest.mark.fast


@dataclasses.dataclass(frozen=True)
class _Options:
    heads: int = 2
    window: int = 3

    def __post_init__(self) -> None:
        if self.window < 0:
            raise ValueError(self.window)


@pytest.fixture
def config() -> ConfigDict:
    config = ConfigDict({"seed": 1, "rate": 0.5, "model": {"dim": 8, "attention": {}}})
    config.limit = optional(None, int)
    config.model.attention = ConfigDict({"variant": "x", "heads": 4, "window": 5})
    return config.lock()


def test_a_leaf_that_nothing_reads_is_found(config: ConfigDict) -> None:
    reads: set[str] = set()
    recording = RecordingConfig(config, reads)
    assert recording.seed == 1
    assert recording["limit"] is None
    assert recording.model.get("dim") == 8
    assert recording["model.attention.variant"] == "x"
    assert unread(config, reads) == ["model.attention.heads", "model.attention.window", "rate"]
    assert recording.get("absent", 7) == 7
    assert recording.rate == 0.5
    assert recording.model.attention.heads == 4
    assert recording.model.attention.window == 5
    assert unread(recording, reads) == []


def test_listing_a_section_is_no_read(config: ConfigDict) -> None:
    reads: set[str] = set()
    recording = RecordingConfig(config, reads)
    assert config_hash(recording) == config_hash(config)
    assert from_json(to_json(recording)) == from_json(to_json(config))
    assert recording.to_dict() == config.to_dict()
    assert dict(recording.model.attention) == {"variant": "x", "heads": 4, "window": 5}
    assert {**recording.model.attention} == {"variant": "x", "heads": 4, "window": 5}
    assert {key: recording[key] for key in recording if key != "model"}["seed"] == 1
    assert 8 in recording.model.values()
    assert normalized(recording) == normalized(config)
    assert reads == set()


def test_the_fields_of_a_dataclass_count_once_they_are_read(config: ConfigDict) -> None:
    reads: set[str] = set()
    recording = RecordingConfig(config, reads)
    with recorded_fields({_Options: "model.attention"}, reads):
        own = recording.model.attention.to_dict()
        own.pop("variant")
        options = _Options(**own)
        # Handling the whole object uses no field.
        assert options == dataclasses.replace(options)
        assert hash(options) == hash(_Options(**own))
        assert "heads=4" in repr(options)
        assert dataclasses.asdict(options) == own
        assert reads == set()
        assert options.heads == 4
    assert reads == {"model.attention.heads"}
    assert "model.attention.window" in unread(config, reads)
    assert options.window == 5  # outside, nothing is noted
    assert reads == {"model.attention.heads"}


def test_types_and_locking_are_those_of_the_config(config: ConfigDict) -> None:
    recording = RecordingConfig(config, set())
    with pytest.raises(AttributeError):
        recording.new = 1
    with pytest.raises(TypeError):
        recording.limit = "x"
