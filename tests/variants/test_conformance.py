"""The conformance suite: every variant, over its options and modes. A new variant is in it."""

from __future__ import annotations

import functools
from types import ModuleType

import pytest
from support import attend_checks, layer_checks
from support.attend_checks import AttendProbe
from support.cases import attend_cases, layer_cases, reference
from support.layer_checks import LayerProbe

from attention import variants

# A probe compiles; the checks of one case share it.
layer_probe = functools.cache(LayerProbe)
MODES = {"bidirectional", "causal", "cross", "decode", "packed"}


@functools.cache
def attend_probe(name: str, kv_heads: int, causal: bool) -> AttendProbe:
    return AttendProbe(name, kv_heads, causal, needed_reference(name))


def needed_reference(name: str) -> ModuleType:
    """Returns the formula in float64, without which nothing says that a variant is right."""
    found = reference(name)
    if found is None:
        pytest.fail(
            f"variant {name!r} has no witness: write tests/reference/{name}.py, its formula in "
            "float64 NumPy (tests/reference/scaled_dot.py shows how)",
            pytrace=False,
        )
    return found


def over(mode: str, checks):
    """Parametrises over the cases of a mode and the checks, the checks of a case together."""
    pairs = [(case, check) for case in layer_cases(mode) for check in checks]
    return pytest.mark.parametrize(
        ("case", "check"), pairs, ids=[f"{case}-{check.__name__}" for case, check in pairs]
    )


@pytest.mark.parametrize("check", attend_checks.ALL, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "kv_heads", "causal"), attend_cases())
def test_attend(name, kv_heads, causal, check):
    check(attend_probe(name, kv_heads, causal))


@over("bidirectional", layer_checks.BIDIRECTIONAL)
def test_bidirectional_layer(case, check):
    check(layer_probe(case))


@over("causal", layer_checks.CAUSAL)
def test_causal_layer(case, check):
    check(layer_probe(case, causal=True))


@over("decode", layer_checks.DECODE)
def test_decoding_layer(case, check):
    check(layer_probe(case, causal=True))


@over("cross", layer_checks.CROSS)
def test_cross_layer(case, check):
    check(layer_probe(case, context=True))


@pytest.mark.fast
@pytest.mark.parametrize("name", variants.names())
def test_modes_are_known(name):
    modes = variants.get(name).MODES
    assert modes and modes <= MODES
    assert "decode" not in modes or "causal" in modes


@pytest.mark.fast
@pytest.mark.parametrize("name", variants.names())
def test_every_variant_with_attend_has_a_reference(name):
    if hasattr(variants.get(name), "attend"):
        assert callable(needed_reference(name).attend)


@pytest.mark.fast
def test_a_variant_without_reference_fails_and_says_what_to_write():
    with pytest.raises(pytest.fail.Exception, match=r"write tests/reference/made_up\.py"):
        attend_probe("made_up", 1, False)
