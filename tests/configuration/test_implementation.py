"""`implementation=auto` is decided once a run, and the decision is kept."""

from __future__ import annotations

import pytest

from attention import configuration
from attention.configuration import choose_implementation, load_config
from attention.errors import UserError

pytestmark = pytest.mark.fast
SPEC = "configs/pos_tagging.py:size=tiny"
TRANSLATION = "configs/translation.py:size=tiny"
KEY = "model.attention.implementation"


def chosen(overrides=(), saved=None) -> str:
    config = choose_implementation(load_config(SPEC, dict(overrides)), saved=saved)
    return config.model.attention.implementation


def test_auto_becomes_what_the_table_says():
    assert load_config(SPEC).model.attention.implementation == "auto"
    assert chosen() == "plain"
    assert chosen({"data.max_length": 4096, "batch_tokens": 4096}) == "chunked"
    assert chosen({KEY: "chunked"}) == "chunked"


def test_each_place_is_looked_up_with_its_direction():
    half = {"data.max_length": 512, "batch_tokens": 512}
    assert chosen(half) == "plain"
    assert chosen({**half, "model.direction": "causal"}) == "chunked"
    config = load_config(f"{TRANSLATION},decoder=additive", {**half, "data.pack": "always"})
    model = choose_implementation(config).model
    sections = (model.attention, model.decoder_attention, model.cross_attention)
    assert [section.implementation for section in sections] == ["plain", "chunked", "plain"]


def test_auto_is_what_the_run_began_with():
    saved = choose_implementation(load_config(SPEC, {KEY: "chunked"}))
    assert chosen(saved=saved) == "chunked"


def test_a_resumed_run_may_not_choose_otherwise():
    saved = choose_implementation(load_config(SPEC))
    config = choose_implementation(load_config(SPEC, {KEY: "chunked"}), saved=saved)
    with pytest.raises(UserError, match=KEY):
        configuration.continue_with(saved, config, where="runs/x")


def test_it_is_no_part_of_the_hash():
    hashes = {
        configuration.config_hash(load_config(SPEC, {KEY: name})) for name in ("plain", "auto")
    }
    assert len(hashes) == 1


def test_each_attention_of_a_model_is_decided():
    config = load_config(SPEC).copy_and_resolve_references().unlock()
    for place, name in (("decoder_attention", "auto"), ("cross_attention", "chunked")):
        config.model[place] = config.model.attention.copy_and_resolve_references()
        config.model[place].implementation = name
    found = choose_implementation(config).model
    sections = (found.attention, found.decoder_attention, found.cross_attention)
    assert [section.implementation for section in sections] == ["plain", "plain", "chunked"]
    assert configuration.config_hash(config) == configuration.config_hash(
        choose_implementation(config)
    )


def test_a_variant_without_the_option_is_left_as_it_is():
    config = load_config(f"{SPEC},variant=rnn")
    assert choose_implementation(config) is config
