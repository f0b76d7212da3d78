"""A config key that nothing reads is a defect: every leaf of a recipe is read by a training run."""

import pytest
from support.recording import RecordingConfig, recorded_fields, unread
from support.runs import small_overrides

from attention import configuration, variants
from attention.core.settings import LayerSettings
from attention.models.encoder import EncoderConfig
from attention.training import loop

ARGUMENTS = ["size=tiny,dataset=files", "size=small,dataset=files", "size=base,dataset=files"]
# The names of the parts that a run is made of; they are for people and for compare, not for code.
LABELS = {"size"}


@pytest.fixture(scope="module")
def reads(tmp_path_factory):
    """For each argument: the config, the leaves read, and the fields read of what is built."""
    folder = tmp_path_factory.mktemp("leaves")
    by_argument = {}
    own = {variants.get(name).Config: "model.attention" for name in variants.names()}
    for number, argument in enumerate(ARGUMENTS):
        config = configuration.load_config(
            f"configs/pos_tagging.py:{argument}",
            {**small_overrides(folder / "data", train_steps=1), "batch_tokens": 256},
        )
        leaves: set[str] = set()
        fields: set[str] = set()
        built = {EncoderConfig: "encoder", LayerSettings: "layer"}
        with recorded_fields(own, leaves), recorded_fields(built, fields):
            loop.train(RecordingConfig(config, leaves), str(folder / f"run{number}"))
        by_argument[argument] = (config, leaves, fields)
    return by_argument


def test_every_leaf_is_read_under_some_argument(reads):
    everything = set().union(*(leaves for _, leaves, _ in reads.values()))
    for argument, (config, _, _) in reads.items():
        assert set(unread(config, everything)) <= LABELS, argument


def test_every_field_of_what_is_built_from_a_config_is_read(reads):
    everything = set().union(*(fields for _, _, fields in reads.values()))
    expected = {f"encoder.{name}" for name in EncoderConfig.__dataclass_fields__}
    assert expected <= everything


def test_a_leaf_that_nothing_reads_is_found(reads):
    config, leaves, _ = next(iter(reads.values()))
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.model.forgotten = 1
    assert "model.forgotten" in unread(config, leaves)
