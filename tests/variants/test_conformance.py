"""The conformance suite: every variant, over its options and modes. A new variant is in it."""

from __future__ import annotations

import functools
from types import ModuleType

import pytest
from support import attend_checks, layer_checks
from support.attend_checks import AttendProbe
from support.cases import AttendCase, attend_cases, layer_cases, reference
from support.layer_checks import LayerProbe

from attention import variants

# A probe compiles; the checks of one case share it. Not all are kept: a few hundred programs are
# heavy, and the checks of a case come together.
layer_probe = functools.lru_cache(maxsize=4)(LayerProbe)
MODES = {"bidirectional", "causal", "cross", "decode", "packed"}


@functools.lru_cache(maxsize=4)
def attend_probe(case: AttendCase) -> AttendProbe:
    return AttendProbe(case, needed_reference(case.name))


def needed_reference(name: str) -> ModuleType:
    """Returns the formula in float64, without which nothing says that a variant is right."""
    found = reference(name)
    if found is None:
        pytest.fail(
            f"variant {name!r} has no witness: write tests/reference/{name}.py, its formula in "
            "float64 NumPy (tests/reference/additive.py shows how)",
            pytrace=False,
        )
    return found


def over(cases, checks):
    """Parametrises over cases and checks, the checks of a case together."""
    pairs = []
    for given in cases:
        case, marks = (given.values[0], given.marks) if hasattr(given, "values") else (given, ())
        pairs += [
            pytest.param(case, check, marks=marks, id=f"{case}-{check.__name__}")
            for check in checks
        ]
    return pytest.mark.parametrize(("case", "check"), pairs)


@over(attend_cases(), attend_checks.ALL)
def test_attend(case, check):
    check(attend_probe(case))


@over(layer_cases("bidirectional"), layer_checks.BIDIRECTIONAL)
def test_bidirectional_layer(case, check):
    check(layer_probe(case))


@over(layer_cases("causal"), layer_checks.CAUSAL)
def test_causal_layer(case, check):
    check(layer_probe(case, causal=True))


@over(layer_cases("decode", "causal"), layer_checks.DECODE)
def test_decoding_layer(case, check):
    check(layer_probe(case, causal=True))


@over(layer_cases("cross"), layer_checks.CROSS)
def test_cross_layer(case, check):
    check(layer_probe(case, context=True))


@pytest.mark.fast
@pytest.mark.parametrize("name", variants.names())
def test_modes_are_known(name):
    modes = variants.get(name).MODES
    assert modes and modes <= MODES
    assert "decode" not in modes or modes & {"causal", "cross"}


@pytest.mark.fast
@pytest.mark.parametrize("name", variants.names())
def test_every_variant_has_a_reference(name):
    wanted = "attend" if hasattr(variants.get(name), "attend") else "forward"
    assert callable(getattr(needed_reference(name), wanted))


@pytest.mark.fast
def test_a_variant_without_reference_fails_and_says_what_to_write():
    with pytest.raises(pytest.fail.Exception, match=r"write tests/reference/made_up\.py"):
        attend_probe(AttendCase("made_up"))
