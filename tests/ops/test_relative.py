"""Terms that depend on the distance: float64 references, derivatives, memory, decoding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from reference import positions as reference

from attention.ops.relative import T5, Alibi, Relative, Shaw, t5_buckets

pytestmark = pytest.mark.fast

B, N, T, S, H, C = 3, 4, 5, 7, 6, 2
SHARED = np.arange(S)[None, None, :] - np.arange(T)[None, :, None] - 1
# A distance for each row of the batch, of any sign, beyond all clips, and not i − j of anything.
OWN = np.random.default_rng(0).integers(-300, 300, (B, T, S))
OWN[:, :, :3] //= 100
DISTANCES = pytest.mark.parametrize("distance", [SHARED, OWN], ids=["shared", "own"])


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_a_term_does_nothing_by_itself():
    nothing = Relative()
    q, weights, distance = jnp.zeros((B, T, N, H)), jnp.zeros((B, N, T, S)), jnp.asarray(SHARED)
    assert nothing.key_term(q, distance) is None
    assert nothing.bias(distance) is None
    assert nothing.value_term(weights, distance) is None
    assert Relative.ARRAYS == ()


def test_terms_are_static():
    assert Shaw() == Shaw() and hash(T5(True, 9)) == hash(T5(True, 9)) != hash(T5(False, 9))


@DISTANCES
def test_alibi(distance):
    slopes = random(N)
    got = Alibi().bias(jnp.asarray(distance), slopes=jnp.asarray(slopes))
    assert got.shape == (len(distance), N, T, S) and got.dtype == jnp.float32
    np.testing.assert_allclose(got, reference.alibi(distance, slopes), rtol=1e-6)
    np.testing.assert_array_equal(Alibi().bias(jnp.asarray(distance), slopes=jnp.zeros(N)), 0.0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (6, 20), (4, 3), (64, 4096)])
def test_t5_buckets_of_every_distance(buckets, farthest, bidirectional):
    distance = np.arange(-farthest - 9, farthest + 10)
    got = T5(bidirectional, farthest).buckets(jnp.asarray(distance)[None, None], buckets)[0, 0]
    options = {
        "num_buckets": buckets,
        "max_distance": farthest,
        "bidirectional": bidirectional,
    }
    want = [reference.t5_bucket(int(d), **options) for d in distance]
    np.testing.assert_array_equal(got, want)


def test_t5_buckets_that_are_known():
    two_way = T5(True, 128).buckets(
        jnp.array([[[-200, -128, -64, -16, -8, -7, 0, 1, 7, 8, 15, 16, 64, 91, 128, 2**30]]]), 32
    )
    want = [15, 15, 14, 10, 8, 7, 0, 17, 23, 24, 25, 26, 30, 31, 31, 31]
    np.testing.assert_array_equal(two_way[0, 0], want)
    one_way = T5(False, 128).buckets(jnp.array([[[-128, -32, -17, -16, -15, 0, 1, 99]]]), 32)
    np.testing.assert_array_equal(one_way[0, 0], [31, 21, 16, 16, 15, 0, 0, 0])


def test_t5_boundaries_are_those_of_whole_numbers():
    # exact = 5, so that bucket 5 + k starts at 5·10^(k/5): 5·10 = 50 is the first of bucket 10.
    buckets = t5_buckets(20, 1000)
    assert [int(buckets[d]) for d in (9, 10, 99, 100, 999, 1000)] == [9, 10, 14, 15, 19, 19]


@DISTANCES
@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5(distance, bidirectional):
    table = random(10, N)
    got = T5(bidirectional, 40).bias(jnp.asarray(distance), bias_table=jnp.asarray(table))
    assert got.shape == (len(distance), N, T, S) and got.dtype == jnp.float32
    want = reference.t5(distance, table, max_distance=40, bidirectional=bidirectional)
    np.testing.assert_array_equal(got, np.float32(want))


@DISTANCES
def test_t5_gradient_adds_up_over_a_bucket(distance):
    given = random(len(distance), N, T, S, seed=1)

    def loss(table):
        return jnp.sum(given * T5(True, 40).bias(jnp.asarray(distance), bias_table=table))

    got = jax.jit(jax.grad(loss))(jnp.zeros((10, N)))
    want = np.zeros((10, N))
    for b, t, s in np.ndindex(distance.shape):
        options = {"num_buckets": 10, "max_distance": 40, "bidirectional": True}
        want[reference.t5_bucket(int(distance[b, t, s]), **options)] += given[b, :, t, s]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


@DISTANCES
def test_shaw(distance):
    q, keys, values = random(B, T, N, H), random(2 * C + 1, H, seed=1), random(9, H + 1, seed=2)
    weights = np.abs(random(B, N, T, S, seed=3))
    key_term = Shaw().key_term(jnp.asarray(q), jnp.asarray(distance), key_table=jnp.asarray(keys))
    want = reference.shaw_key(q, distance, keys)
    np.testing.assert_allclose(key_term, want, rtol=0, atol=2e-6)
    value_term = Shaw().value_term(
        jnp.asarray(weights), jnp.asarray(distance), value_table=jnp.asarray(values)
    )
    want = reference.shaw_value(weights, distance, values)
    np.testing.assert_allclose(value_term, want, rtol=0, atol=5e-6)
    assert key_term.dtype == value_term.dtype == jnp.float32


def test_shaw_rows_are_keys_ahead_last():
    tables = {"key_table": jnp.arange(5.0)[:, None], "value_table": jnp.arange(5.0)[:, None]}
    distance = jnp.array([[[-9, -2, -1, 0, 1, 2, 9]]])
    got = Shaw().key_term(jnp.ones((1, 1, 1, 1)), distance, **tables)
    np.testing.assert_array_equal(got[0, 0, 0], [0, 0, 1, 2, 3, 4, 4])
    for s, row in enumerate([0, 0, 1, 2, 3, 4, 4]):
        weights = jnp.zeros((1, 1, 1, 7)).at[0, 0, 0, s].set(1.0)
        assert float(Shaw().value_term(weights, distance, **tables)[0, 0, 0, 0]) == row


def materialised(q, weights, tables, distance):
    """Shaw's terms with an array [b t s h] of vectors, for automatic derivatives."""

    def rows(table):
        found = table[jnp.clip(distance, -C, C) + C]
        return jnp.broadcast_to(found, (B, *found.shape[1:]))

    key_term = jnp.einsum("btnh,btsh->bnts", q, rows(tables["key_table"]))
    return key_term, jnp.einsum("bnts,btsh->btnh", weights, rows(tables["value_table"]))


@pytest.mark.long
@DISTANCES
def test_shaw_derivatives(distance):
    distance = jnp.asarray(distance)
    tables = {"key_table": random(2 * C + 1, H, seed=1), "value_table": random(5, H, seed=2)}
    arguments = (random(B, T, N, H), random(B, N, T, S, seed=3), jax.tree.map(jnp.asarray, tables))

    def terms(q, weights, tables):
        key_term = Shaw().key_term(q, distance, **tables)
        return key_term, Shaw().value_term(weights, distance, **tables)

    def loss(function, q, weights, tables):
        key_term, value_term = function(q, weights, tables)
        return jnp.sum(jnp.sin(key_term)) + jnp.sum(jnp.sin(value_term))

    def both(derive):
        want = derive(lambda *given: loss(lambda *g: materialised(*g, distance), *given))
        return zip(
            jax.tree.leaves(derive(lambda *given: loss(terms, *given))),
            jax.tree.leaves(want),
            strict=True,
        )

    def gradient(f):
        return jax.jit(jax.grad(f, argnums=(0, 1, 2)))(*arguments)

    def second(f):  # forward over reverse
        return jax.jvp(jax.grad(f, argnums=(0, 1, 2)), arguments, arguments)

    for derive in (gradient, second):
        for got, want in both(derive):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def sizes(jaxpr) -> list[int]:
    """The number of elements of everything that a program computes."""
    found = []
    for equation in jaxpr.eqns:
        found += [int(np.prod(v.aval.shape)) for v in equation.outvars]
        for inner in jaxprs_in_params(equation.params):
            found += sizes(inner)
    return found


def test_shaw_makes_no_array_of_distances_times_rows():
    t, s, rows = 16, 24, 33
    distance = jnp.arange(s)[None, None, :] - jnp.arange(t)[None, :, None]
    q, weights, table = jnp.ones((2, t, N, H)), jnp.ones((2, N, t, s)), jnp.ones((rows, H))

    def loss(q, weights, table):
        tables = {"key_table": table, "value_table": table}
        key_term = Shaw().key_term(q, distance, **tables)
        value_term = Shaw().value_term(weights, distance, **tables)
        return jnp.sum(key_term**2) + jnp.sum(value_term**2)

    program = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1, 2)))(q, weights, table)
    assert max(sizes(program.jaxpr)) <= 2 * N * t * rows < t * s * rows


@pytest.mark.parametrize(
    "term", [Alibi(), T5(True, 9), Shaw()], ids=lambda term: type(term).__name__
)
def test_a_step_of_decoding_is_a_row(term):
    """Distances of one query [b 1 s] give the row that all queries give."""
    arrays = {
        "slopes": random(N),
        "bias_table": random(8, N),
        "key_table": random(5, H),
        "value_table": random(5, H, seed=1),
    }
    arrays = {name: jnp.asarray(arrays[name]) for name in term.ARRAYS}
    q, weights = jnp.asarray(random(B, T, N, H)), jnp.asarray(random(B, N, T, S))
    distance = jnp.asarray(OWN)
    i = 3
    pairs = [
        (
            term.bias(distance[:, i : i + 1], **arrays),
            term.bias(distance, **arrays),
            2,
        ),
        (
            term.key_term(q[:, i : i + 1], distance[:, i : i + 1], **arrays),
            term.key_term(q, distance, **arrays),
            2,
        ),
        (
            term.value_term(weights[:, :, i : i + 1], distance[:, i : i + 1], **arrays),
            term.value_term(weights, distance, **arrays),
            1,
        ),
    ]
    assert any(whole is not None for _, whole, _ in pairs)
    for step, whole, axis in pairs:
        assert (step is None) == (whole is None)
        if whole is not None:
            np.testing.assert_allclose(
                step, jnp.take(whole, jnp.array([i]), axis=axis), rtol=0, atol=1e-6
            )


def test_bfloat16_is_computed_in_float32():
    q = jnp.asarray(random(B, T, N, H), jnp.bfloat16)
    table, distance = jnp.asarray(random(5, H, seed=1)), jnp.asarray(SHARED)
    got = Shaw().key_term(q, distance, key_table=table)
    want = reference.shaw_key(np.asarray(q, np.float64), SHARED, np.asarray(table, np.float64))
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)
    far = jnp.array([[[2049, 2050]]])
    bias = Alibi().bias(far, slopes=jnp.ones(1, jnp.bfloat16))
    np.testing.assert_array_equal(bias[0, 0, 0], [-2049.0, -2050.0])


def test_tables_that_do_not_fit():
    distance = jnp.asarray(SHARED)
    with pytest.raises(ValueError, match=r"key_table has shape \(4, 6\).*2c\+1"):
        Shaw().key_term(jnp.zeros((B, T, N, H)), distance, key_table=jnp.zeros((4, H)))
    with pytest.raises(ValueError, match=r"value_table has shape \(4, 6\).*2c\+1"):
        Shaw().value_term(jnp.zeros((B, N, T, S)), distance, value_table=jnp.zeros((4, H)))
    with pytest.raises(ValueError, match=r"bias_table has shape \(3, 4\).*at least 4"):
        T5(True, 9).bias(distance, bias_table=jnp.zeros((3, N)))
