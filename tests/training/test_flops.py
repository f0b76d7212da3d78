"""FLOPs of programs: by hand, by the formula of a layer, and as XLA counts what it counts alike."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from attention import variants
from attention.training import flops
from attention.training.clock import Clock

pytestmark = pytest.mark.fast

B, T, D, F = 2, 3, 5, 7


def array(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def counted(function: Any, *arguments: Any) -> int:
    return flops.count(jax.make_jaxpr(function)(*arguments)).flops


def dense(x: Any, kernel: Any, bias: Any) -> Any:
    return jnp.tanh(x @ kernel + bias[None])


def test_a_dense_layer_forward_and_backward() -> None:
    given = (array(B, D), array(D, F), array(F))
    product, elements = 2 * B * D * F, B * F
    assert counted(dense, *given) == product + 2 * elements

    def loss(*given: Any) -> Any:
        return dense(*given).sum()

    # Forward with the sum; the derivative of tanh; two products; the sum for the bias.
    elementwise = counted(jax.vjp(jnp.tanh, jnp.ones((B, F)))[1], array(B, F))
    expected = (product + 2 * elements + elements) + 2 * product + elements
    found = counted(jax.grad(loss, argnums=(0, 1, 2)), *given)
    # tanh' is 1 − y², of two or three operations as the version of JAX writes it.
    assert 0 <= found - expected - elementwise <= 3 * elements


def test_loops_branches_and_calls() -> None:
    body = 2 * B * D * D

    def power(x: Any, kernel: Any) -> Any:
        return jax.lax.scan(lambda x, _: (x @ kernel, None), x, length=11)[0]

    given = (array(B, D), array(D, D))
    assert counted(power, *given) == 11 * body
    assert counted(lambda x, w: jax.lax.fori_loop(0, 4, lambda _, x: x @ w, x), *given) == 4 * body

    def either(which: Any, x: Any, kernel: Any) -> Any:
        return jax.lax.cond(which, lambda: x @ kernel, lambda: x + 1.0)

    assert counted(either, array(dtype=jnp.bool_), *given) == body
    assert (
        counted(jax.vmap(power, in_axes=(0, None)), array(13, B, D), array(D, D)) == 13 * 11 * body
    )
    assert counted(jax.jit(jax.checkpoint(power)), *given) == 11 * body


def test_a_custom_gradient_counts_what_it_computes() -> None:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(jnp.exp(x)),))
    assert counted(f, array(B, D)) == B * D
    assert counted(lambda x, g: jax.vjp(f, x)[1](g), array(B, D), array(B, D)) == 3 * B * D


def test_an_open_loop_counts_one_turn_and_is_told() -> None:
    def loop(n: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, x: x * 2.0, x)

    given = (array(dtype=jnp.int32), array(B, D))
    assert flops.count(jax.make_jaxpr(loop)(*given)) == flops.Count(B * D, open_loops=1)

    def either(which: Any, n: Any, x: Any) -> Any:  # one whose count is whole is better known
        return jax.lax.cond(which, lambda: loop(n, x) + jnp.sin(x) + x, lambda: jnp.cos(x))

    found = flops.count(jax.make_jaxpr(either)(array(dtype=jnp.bool_), *given))
    assert found == flops.Count(B * D, open_loops=0)


def test_what_moves_or_is_not_used_costs_nothing() -> None:
    def moves(x: Any, ids: Any) -> Any:
        _ = jnp.exp(x)
        order = jnp.argsort(x[0])
        rows = x.T[order][ids].astype(jnp.bfloat16)
        return jnp.where(ids[:, None] > 2 * ids.sum(), rows, 0), jnp.argmax(x)

    assert counted(moves, array(B, D), array(T, dtype=jnp.int32)) == 0


def test_reductions_scattered_sums_and_transforms() -> None:
    x = array(B, D)
    assert counted(lambda x: jnp.sum(x, axis=0), x) == B * D
    assert counted(lambda x: jnp.max(x, axis=1), x) == B * D
    assert counted(lambda x: jnp.cumsum(x, axis=1), x) == B * D
    ids = jnp.zeros(B, jnp.int32)
    assert counted(lambda x: jnp.zeros((9, D)).at[ids].add(x, mode="drop"), x) == B * D
    wave = array(B, 16)
    assert counted(jnp.fft.rfft, wave) == 2.5 * B * 16 * 4
    assert counted(jnp.fft.fft, array(B, 16, dtype=jnp.complex64)) == 5 * B * 16 * 4


@pytest.mark.parametrize(
    "options",
    [
        {"window_strides": (1,), "padding": [(2, 0)]},
        {"window_strides": (2,), "padding": "SAME"},
        {"window_strides": (1,), "padding": [(1, 0)], "lhs_dilation": (3,), "rhs_dilation": (2,)},
        {"window_strides": (1,), "padding": "SAME", "feature_group_count": 2},
        {"window_strides": (1,), "padding": "SAME", "batch_group_count": 2},
    ],
)
def test_convolutions_are_as_xla_counts_them(options: dict[str, Any]) -> None:
    groups = options.get("feature_group_count", 1)
    x, kernel = array(4, 6, 11), array(8, 6 // groups, 3)

    def convolve(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(x, kernel, **options)

    assert counted(convolve, x, kernel) == of_xla(convolve, x, kernel)


def of_xla(function: Any, *arguments: Any) -> float:
    analysis: Any = jax.jit(function).lower(*arguments).cost_analysis()
    return analysis["flops"]


def test_products_are_as_xla_counts_them() -> None:
    def products(q: Any, k: Any, v: Any) -> Any:
        return jnp.einsum("bnts,bskh->btnkh", jnp.einsum("btnh,bsnh->bnts", q, k), v)

    given = [array(B, T, 4, 6), array(B, F, 4, 6), array(B, F, 3, 6)]
    assert counted(products, *given) == of_xla(products, *given) > 0


def test_shapes_of_a_device_are_multiplied_by_the_devices() -> None:
    mesh = AbstractMesh((4,), ("data",), axis_types=(AxisType.Auto,))
    spread = jax.shard_map(
        lambda x: jax.lax.psum(jnp.sin(x), "data"), mesh=mesh, in_specs=P(), out_specs=P(),
        check_vma=False,
    )  # fmt: skip
    assert counted(spread, array(B, D)) == 4 * B * D


def layer_count(name: str, *, length: int = 32, dim: int = 16, heads: int = 2, **own: Any) -> Any:
    """The jaxpr of one layer, forward."""
    layer = nnx.eval_shape(
        lambda: variants.make(name, dim=dim, num_heads=heads, rngs=nnx.Rngs(0), **own)
    )
    structure, state = nnx.split(layer)
    return jax.make_jaxpr(lambda state, x: nnx.merge(structure, state)(x))(
        state, array(B, length, dim)
    )


def products(jaxpr: Any) -> int:
    """The matrix products of a jaxpr and what it calls, apart from loops."""
    total = 0
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if equation.primitive.name == "dot_general":
            total += flops.count(jaxpr_of(equation)).flops
        total += sum(map(products, flops._jaxprs(equation.params)))
    return total


def jaxpr_of(equation: Any) -> Any:
    given = [array(*var.aval.shape) for var in equation.invars]
    return jax.make_jaxpr(lambda *x: equation.primitive.bind(*x, **equation.params))(*given)


def test_the_products_of_an_attention_layer_are_its_formula() -> None:
    length, dim = 32, 16
    jaxpr = layer_count("scaled_dot", length=length, dim=dim, implementation="plain")
    four_projections, scores_and_values = 4 * 2 * length * dim**2, 2 * 2 * length**2 * dim
    assert products(jaxpr) == B * (four_projections + scores_and_values)
    # A softmax is about five operations a score.
    rest = flops.count(jaxpr).flops - products(jaxpr)
    assert 3 * B * 2 * length**2 < rest < 10 * B * 2 * length**2


def test_a_layer_with_its_gradients_is_within_a_few_percent_of_xla() -> None:
    layer = nnx.eval_shape(
        lambda: variants.make("scaled_dot", dim=128, num_heads=2, rngs=nnx.Rngs(0))
    )
    structure, state = nnx.split(layer)

    def step(state: Any, x: Any) -> Any:
        return jax.grad(lambda state: (nnx.merge(structure, state)(x) ** 2).sum())(state)

    given = (state, array(B, 64, 128))
    compiled: Any = jax.jit(step).lower(*given).compile().cost_analysis()
    # XLA has exp and its like beside the others.
    assert counted(step, *given) == pytest.approx(
        compiled["flops"] + compiled["transcendentals"], rel=0.03
    )


def test_additive_scores_count_more_than_products() -> None:
    scaled, additive = (flops.count(layer_count(name)).flops for name in ("scaled_dot", "additive"))
    # tanh(q + k) over t · s · n · h, and what multiplies it.
    assert additive - scaled > B * 32 * 32 * 16


@pytest.mark.parametrize("way", ["plain", "chunked"])
def test_a_window_counts_less_where_it_computes_less(way: str) -> None:
    full, window = (
        flops.count(layer_count(name, length=512, **own)).flops
        for name, own in (
            ("scaled_dot", {}),
            ("sliding_window", {"window": 16, "implementation": way}),
        )
    )
    # In one piece it computes what it hides.
    assert window == full if way == "plain" else window < full / 5


def test_the_clock_goes_on_counting_or_says_that_it_does_not_know() -> None:
    clock = Clock(lambda: 0.0)
    clock.count(tokens=3, positions=4, flops=10**17 + 1)
    again = Clock(lambda: 0.0, clock.record())
    again.count(tokens=3, positions=4, flops=1)
    assert again.flops == 10**17 + 2 and math.isfinite(
        again.rates_since(clock.record())["time/steps_per_second"]
    )
    before = {key: value for key, value in clock.record().items() if key != "flops"}
    old = Clock(lambda: 0.0, before)
    old.count(tokens=3, positions=4, flops=1)
    assert old.flops is None and Clock(lambda: 0.0, old.record()).flops is None
    assert Clock(lambda: 0.0, {}).flops == 0
