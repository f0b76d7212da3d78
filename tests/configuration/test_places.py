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
