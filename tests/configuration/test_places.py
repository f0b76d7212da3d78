"""What the places of a translator refuse, with the variants that there are."""

from __future__ import annotations

import re

import pytest

from attention.configuration import check, load_config
from attention.errors import UserError

pytestmark = pytest.mark.fast

SPEC = "configs/translation.py:size=tiny"


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ("decoder=sliding_window", "model.decoder_attention.window"),
        ("decoder=scaled_dot", "model.decoder_attention.num_kv_heads"),
        ("cross=additive", "model.cross_attention.num_kv_heads"),
        ("model=recurrent,cross=monotonic", "model.cross_attention.noise"),
    ],
)
def test_a_wrong_option_is_named_by_the_key_of_its_place(argument: str, key: str) -> None:
    value = "-1.0" if key.endswith("noise") else "-1"
    with pytest.raises(UserError, match=re.escape(f"{key}={value}")) as caught:
        load_config(f"{SPEC},{argument}", [(key, value)])
    assert "model.attention." not in str(caught.value)


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_a_window_means_nothing_between_two_sequences(model: str) -> None:
    with pytest.raises(UserError, match=r"model\.cross_attention\.window.*set it to None"):
        load_config(f"{SPEC},model={model}", {"model.cross_attention.window": 4})
    load_config(SPEC, {"model.attention.window": 4})


@pytest.mark.parametrize(
    ("model", "key", "value"),
    [
        ("transformer", "model.tied_embeddings", "all"),
        ("recurrent", "model.tied_embeddings", "all"),
        ("recurrent", "model.pointer", "mixed"),
    ],
)
def test_what_takes_an_id_for_one_word_needs_one_vocabulary(model, key, value) -> None:
    spec, apart = f"{SPEC},model={model}", {"data.shared_vocabulary": False}
    chosen = {"model.tied_embeddings": "output", key: value}
    with pytest.raises(UserError, match=f"{key}='{value}' .*data.shared_vocabulary") as caught:
        load_config(spec, apart | chosen)
    assert "\n" not in str(caught.value)
    load_config(spec, chosen)
    # The bytes of two languages are the same.
    load_config(spec, apart | chosen | {"data.tokenizer": "bytes"})
    load_config(spec, apart | {"model.tied_embeddings": "output"})


@pytest.mark.parametrize("cross", ["none", "additive", "location_sensitive", "monotonic"])
def test_every_recurrent_translator_packs(cross: str) -> None:
    assert load_config(f"{SPEC},model=recurrent,cross={cross}").data.pack == "always"


def test_a_pointer_alone_is_trained_without_smoothing() -> None:
    spec, pointer = f"{SPEC},model=recurrent", {"model.pointer": "alone"}
    with pytest.raises(UserError, match=r"label_smoothing=0\.1 .*set label_smoothing=0") as caught:
        load_config(spec, pointer)
    assert "\n" not in str(caught.value)
    sharp = load_config(spec, pointer | {"label_smoothing": 0.0})
    assert sharp.model.pointer == "alone"
    load_config(spec, {"model.pointer": "mixed"})
    # What began before this was refused goes on, and can be opened.
    before = load_config(spec, pointer, saved=sharp)
    assert before.label_smoothing == 0.1
    check(before)


def test_a_decoder_that_cannot_step_is_refused_with_the_key_that_allows_it() -> None:
    argument = f"{SPEC},decoder=strided"
    with pytest.raises(UserError, match=r"the mode 'decode'.*decode\.use_cache=false") as caught:
        load_config(argument)
    assert "\n" not in str(caught.value)
    load_config(argument, {"decode.use_cache": False})
    # Without the mode causal that key is no help.
    with pytest.raises(UserError, match="'causal'") as caught:
        load_config(f"{SPEC},decoder=longformer")
    assert "use_cache" not in str(caught.value)
