"""Attention against other libraries' outputs, stored by tests/golden/make_golden.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention import variants

pytestmark = pytest.mark.fast
QUERIES = 5


@pytest.fixture(scope="module", params=["torch", "jax"])
def golden(request, repository):
    with np.load(repository / "tests" / "golden" / f"scaled_dot_{request.param}.npz") as file:
        return dict(file)


@pytest.mark.parametrize("case", ["full", "masked", "causal"])
def test_equals_other_libraries(golden, case):
    keys = QUERIES if case == "causal" else golden["k"].shape[1]
    given = {"causal": case == "causal", "mask": golden["mask"] if case == "masked" else None}

    def run(q, k, v):
        return variants.get("scaled_dot").attend(q, k, v, **given)

    arrays = [jnp.asarray(a) for a in (golden["q"], golden["k"][:, :keys], golden["v"][:, :keys])]
    out, pull = jax.vjp(run, *arrays)
    np.testing.assert_allclose(out, golden[f"{case}_out"], rtol=0, atol=2e-6)
    if f"{case}_grad_q" in golden:
        for name, gradient in zip("qkv", pull(jnp.asarray(golden["cotangent"])), strict=True):
            np.testing.assert_allclose(gradient, golden[f"{case}_grad_{name}"], rtol=0, atol=5e-6)
