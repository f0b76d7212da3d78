"""FLOPs, and the machine's peak."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from attention.training import peak

pytestmark = pytest.mark.fast


class Small(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.embed = nnx.Embed(100, 3, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(3, 5, rngs=rngs), nnx.Linear(5, 7, rngs=rngs)])
        self.heads = nnx.LinearGeneral(7, (2, 4), rngs=rngs)
        self.norm = nnx.LayerNorm(7, rngs=rngs)
        self.kernel_of_another_kind = nnx.Param(jnp.ones(1000))


def test_matmul_parameters_are_the_kernels():
    expected = 3 * 5 + 5 * 7 + 7 * 2 * 4
    params = nnx.state(Small(nnx.Rngs(0)), nnx.Param)
    assert peak.matmul_parameters(params) == expected
    assert peak.matmul_parameters(nnx.to_pure_dict(params)) == expected
    assert peak.matmul_parameters(jax.eval_shape(lambda: params)) == expected


def test_model_flops_by_hand():
    # 2 operations (multiply, add) for each parameter and token, forward and twice backward.
    assert peak.model_flops(11, 13) == 2 * 11 * 13 * 3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_peak_is_a_rate_and_measured_once(dtype, monkeypatch):
    monkeypatch.setattr(peak, "_SIZES", (64, 128))
    peak.peak_flops.cache_clear()
    rate = peak.peak_flops(dtype)
    assert math.isfinite(rate) and rate > 1e6
    monkeypatch.setattr(peak, "_seconds", lambda *_: pytest.fail("measured again"))
    assert peak.peak_flops(dtype) == rate
    peak.peak_flops.cache_clear()


def test_peak_counts_the_work_of_all_devices_and_the_best_repeat(monkeypatch):
    times = iter([3.0, 2.0, 5.0])
    monkeypatch.setattr(peak, "_SIZES", (8, 16))
    monkeypatch.setattr(peak, "_seconds", lambda *_: next(times))
    monkeypatch.setattr(peak.jax, "local_devices", lambda: jax.devices()[:1] * 4)
    peak.peak_flops.cache_clear()
    # 2 s are over the budget, so that the larger size is not tried.
    assert peak.peak_flops("float32") == 4 * 2 * 8**3 / 2.0
    peak.peak_flops.cache_clear()
