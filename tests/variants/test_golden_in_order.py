"""Mechanisms whose queries follow each other, against the files of tests/golden."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import pytest
from support.golden import cases, check, read

from attention import variants

pytestmark = pytest.mark.fast


class Case(NamedTuple):
    """How `attend` is called for one case of a file; `arrays` are those besides the file's own."""

    name: str
    options: dict[str, Any] = {}  # noqa: RUF012
    masked: bool = False
    arrays: tuple[str, ...] = ()


LOCATION = "location_sensitive", "location_sensitive_espnet"
MONOTONIC = "monotonic", "monotonic_tensorflow_addons"
OWN = {
    "location_sensitive": ("score_vector", "location_filters", "location_matrix"),
    "monotonic": ("score_vector", "score_gain", "score_offset"),
}
CUMULATIVE, HARD = {"location_input": "cumulative"}, {"test_mode": "hard"}
CASES = {
    LOCATION: (
        Case("full"),
        Case("cumulative", CUMULATIVE),
        Case("started", {}, True, ("previous",)),
        Case("started_cumulative", CUMULATIVE, True, ("previous",)),
    ),
    MONOTONIC: (
        Case("soft"),
        Case("masked", {}, True),
        Case("hard", HARD),
        Case("hard_masked", HARD, True),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("which", "case"),
    [pytest.param(w, c, id=f"{w[0]}-{c.name}") for w, all_of in CASES.items() for c in all_of],
)
def test_attend(which, case):
    variant, name = which
    file = read(name)
    given = {"mask": jnp.asarray(file["mask"])} if case.masked else {}

    def run(q, k, v, **arrays):
        return variants.get(variant).attend(q, k, v, **given, **case.options, **arrays)

    check(run, file, case.name, ("q", "k", "v", *OWN[variant], *case.arrays))


@pytest.mark.parametrize("which", CASES, ids=lambda which: which[0])
def test_every_case_of_a_file_is_checked(which):
    assert sorted(case.name for case in CASES[which]) == sorted(cases(read(which[1])))
