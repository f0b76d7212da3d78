"""What heads do besides attending: talking, taking differences, gates, latents; and pooling."""

from __future__ import annotations

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import differential as differential_reference
from reference import mla as mla_reference
from support.visibility import visible_pairs

from attention import positions, variants
from attention.errors import UserError

B, T, S, N, H, D = 2, 5, 7, 4, 6, 10
OWN = {
    "talking_heads": {"pre_mix": (N, N), "post_mix": (N, N)},
    "differential": {"lam": (N // 2,)},
    "gated": {"gate": (B, T, N, H)},
    "pooling": {},
}
LAYERS = (*OWN, "mla")
INTERLEAVED = positions.get("rope").Config(layout="interleaved")


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def inputs(name: str, kv_heads: int = N) -> dict[str, np.ndarray]:
    """Returns q, k, v and the variant's own arrays."""
    shapes = {"q": (B, T, N, H), "k": (B, S, kv_heads, H), "v": (B, S, kv_heads, H), **OWN[name]}
    return {key: random(*shape, seed=i) for i, (key, shape) in enumerate(shapes.items())}


def make_mask() -> np.ndarray:
    """Returns a mask that differs between heads; one query of one head sees nothing."""
    mask = np.random.default_rng(20).random((B, N, T, S)) < 0.7
    mask[1, 2, 3] = False
    return mask


def wide(arrays):
    return {key: np.asarray(a, np.float64) for key, a in arrays.items()}


def expected(name, arrays, mask, causal, function="attend"):
    sees = visible_pairs((B, N, T, S), mask=mask, causal=causal, query_offset=2)
    own = {key: a for key, a in arrays.items() if key not in ("q", "k", "v")}
    first = [arrays[key] for key in ("q", "k", *("v" if function == "attend" else ""))]
    return getattr(importlib.import_module(f"reference.{name}"), function)(*first, sees, **own)


def attend(name, arrays, mask, causal, **options):
    attend = variants.get(name).attend
    return attend(**arrays, mask=mask, causal=causal, query_offset=2, **options)


def make(name: str, **settings):
    """Returns a layer with every parameter off its initial value."""
    given = {"dim": D, "num_heads": N, "head_dim": H, "rngs": nnx.Rngs(0)}
    layer = variants.make(name, **{**given, **settings})
    state = nnx.state(layer, nnx.Param)
    leaves, structure = jax.tree.flatten(state)
    moved = [leaf + 0.2 * random(*leaf.shape, seed=i) for i, leaf in enumerate(leaves)]
    nnx.update(layer, jax.tree.unflatten(structure, moved))
    return layer


def compiled(layer, method="__call__"):
    """Returns a method of the layer, compiled."""
    graphdef, state = nnx.split(layer)
    return jax.jit(
        lambda *args, **given: getattr(nnx.merge(graphdef, state), method)(*args, **given)
    )


def layer_state(layer) -> dict[str, np.ndarray]:
    """Returns the parameters by dotted path, in float64."""
    flat = nnx.to_flat_state(nnx.state(layer, nnx.Param))
    return {".".join(map(str, path)): np.asarray(leaf[...], np.float64) for path, leaf in flat}


# -- functions of q, k, v --------------------------------------------------------------------------


@pytest.mark.parametrize(("kv_heads", "causal"), [(N, False), (N // 2, True), (1, True)])
@pytest.mark.parametrize("name", OWN)
def test_values_and_weights(name, causal, kv_heads):
    arrays, mask = inputs(name, kv_heads), make_mask()
    for given in (None, mask):
        out = attend(name, arrays, given, causal)
        want = expected(name, wide(arrays), given, causal)
        np.testing.assert_allclose(out, want, rtol=0, atol=5e-6)
    assert np.all(out[1, 3, 2] == 0.0)
    given = {key: array for key, array in arrays.items() if key != "v"}
    weights = variants.get(name).weights(**given, mask=mask, causal=causal, query_offset=2)
    want = expected(name, wide(arrays), mask, causal, "weights")
    np.testing.assert_allclose(weights, want, rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", OWN)
def test_gradients_are_central_differences(name):
    arrays, mask = inputs(name, N // 2), make_mask()
    cotangent, width = random(B, T, N, H, seed=9).astype(np.float64), 1e-5

    def loss(arrays):
        return jnp.sum(attend(name, arrays, mask, True) * jnp.asarray(cotangent, jnp.float32))

    gradients = jax.grad(loss)({key: jnp.asarray(a) for key, a in arrays.items()})
    for key, gradient in gradients.items():
        direction = random(*gradient.shape, seed=30).astype(np.float64)
        ends = [
            np.sum(
                cotangent
                * expected(
                    name, wide(arrays) | {key: arrays[key] + sign * width * direction}, mask, True
                )
            )
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * width)
        error = abs(np.sum(np.asarray(gradient, np.float64) * direction) - slope)
        assert error < 2e-5 * (np.linalg.norm(gradient) + 1), key


@pytest.mark.parametrize("name", OWN)
def test_blocks_change_nothing(name):
    arrays, mask = inputs(name, N // 2), make_mask()
    plain = attend(name, arrays, mask, True, implementation="plain")
    chunked = attend(name, arrays, mask, True, implementation="chunked", block_size=2)
    np.testing.assert_allclose(chunked, plain, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", OWN)
def test_bfloat16(name):
    """The error is that of rounding weights, result and, where there is one, its gate."""
    arrays, mask = inputs(name), make_mask()
    arrays["q"] = arrays["q"] * 8  # scores that bfloat16 could not hold
    rounded = {key: jnp.asarray(a, jnp.bfloat16) for key, a in arrays.items()}
    out = attend(name, rounded, mask, False)
    assert out.dtype == jnp.bfloat16
    weights = expected(name, wide(rounded), mask, False, "weights")
    exact = wide(rounded)
    size = np.einsum("bnts,bsnh->btnh", np.abs(weights), np.abs(exact["v"]))
    size = size * np.abs(exact.get("gate", 1.0))
    error = np.abs(np.asarray(out, np.float64) - expected(name, exact, mask, False))
    roundings = 3 if name == "gated" else 2  # each errs by 2⁻⁸ of the number at most
    assert np.max(error / (size + 1e-4)) < roundings * 2**-8


def test_reductions_to_plain_attention():
    arrays, mask = inputs("pooling"), make_mask()
    plain = functools.partial(attend, mask=mask, causal=True)
    heads = np.asarray(plain("scaled_dot", arrays))
    same = {"pre_mix": jnp.eye(N), "post_mix": jnp.eye(N)}
    np.testing.assert_allclose(plain("talking_heads", arrays | same), heads, rtol=0, atol=1e-6)
    through = {"gate": jnp.ones((B, T, N, H))}
    np.testing.assert_array_equal(plain("gated", arrays | through), heads)
    mask = make_mask()[:, [0, 0, 2, 2]]
    first = {key: arrays[key][:, :, [0, 0, 2, 2]] for key in ("q", "k")} | {"v": arrays["v"]}
    out = attend("differential", arrays | {"lam": jnp.zeros(N // 2)}, mask, True)
    np.testing.assert_array_equal(out, attend("scaled_dot", first, mask, True))


def test_a_mix_has_a_row_for_each_head_that_comes_out():
    arrays = inputs("talking_heads") | {"pre_mix": np.eye(N), "post_mix": np.eye(N)[[2, 0, 1, 3]]}
    weights = variants.get("talking_heads").weights
    own = {key: arrays[key] for key in ("q", "k", "pre_mix", "post_mix")}
    plain = weights(**own | {"post_mix": np.eye(N)})
    np.testing.assert_allclose(weights(**own), plain[:, [2, 0, 1, 3]], atol=1e-6)
    moved = own | {"pre_mix": own["post_mix"], "post_mix": np.eye(N)}
    np.testing.assert_allclose(weights(**moved), plain[:, [2, 0, 1, 3]], atol=1e-6)


# -- layers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "causal", "options"),
    [
        (None, False, {}),
        ("rope", True, {"q_latent_dim": 7}),
        (INTERLEAVED, True, {"value_dim": 3, "latent_dim": 5}),
    ],
    ids=["none", "half", "interleaved"],
)
def test_mla_forward(position, causal, options):
    layer = make("mla", causal=causal, position=position, **options)
    x, ids = random(B, T, D), np.array([[1, 1, 2, 2, 2], [1, 1, 1, 0, 0]])
    layout = "interleaved" if position is INTERLEAVED else "half"
    given = {"position": position and "rope", "layout": layout, "num_heads": N}
    state = layer_state(layer)
    want = mla_reference.forward(
        state, x.astype(np.float64), segment_ids=ids, causal=causal, **given
    )
    np.testing.assert_allclose(compiled(layer)(x, segment_ids=ids), want, rtol=0, atol=5e-6)


@pytest.mark.parametrize(("layer_index", "causal"), [(0, False), (3, True)])
def test_differential_forward(layer_index, causal):
    layer = make("differential", causal=causal, layer_index=layer_index)
    x, ids = random(B, T, D), np.array([[1, 1, 2, 2, 2], [1, 1, 1, 0, 0]])
    want = differential_reference.forward(
        layer_state(layer),
        x.astype(np.float64),
        **{"segment_ids": ids, "causal": causal, "num_heads": N, "layer_index": layer_index},
    )
    np.testing.assert_allclose(compiled(layer)(x, segment_ids=ids), want, rtol=0, atol=5e-6)


def test_differential_layer_reduces_to_its_first_maps():
    layer = make("differential", norm=False, lambda_init=0.0)
    layer.lambda_q1[...], layer.lambda_q2[...] = jnp.zeros(H), jnp.zeros(H)
    plain = make("scaled_dot")
    for name in ("query", "key", "value", "out"):
        nnx.update(getattr(plain, name), nnx.state(getattr(layer, name)))
    first = np.array([0, 0, 2, 2])
    for linear in (plain.query, plain.key):
        linear.kernel[...] = linear.kernel[...].reshape(D, N, H)[:, first].reshape(D, -1)
        linear.bias[...] = linear.bias[...].reshape(N, H)[first].reshape(-1)
    x = random(B, T, D)
    np.testing.assert_allclose(layer(x), plain(x), rtol=0, atol=2e-6)


def test_gated_layer_gates_by_its_input():
    layer, x = make("gated", causal=True), random(B, T, D)
    plain = make("scaled_dot", causal=True)
    for name in ("query", "key", "value", "out"):
        nnx.update(getattr(plain, name), nnx.state(getattr(layer, name)))
    q, k = plain.queries_and_keys(x, None, None, None)
    heads = variants.get("scaled_dot").attend(q, k, plain.values(x, None), causal=True)
    state = layer_state(layer)
    gate = 1 / (1 + np.exp(-(x @ state["gate.kernel"] + state["gate.bias"])))
    want = (gate * np.asarray(heads).reshape(B, T, -1)) @ state["out.kernel"] + state["out.bias"]
    np.testing.assert_allclose(layer(x), want, rtol=0, atol=3e-6)


# That steps are the full pass, the conformance suite tries on all; here are masks and the window.
@pytest.mark.parametrize(
    ("name", "window"),
    [
        *(pytest.param(name, None, marks=pytest.mark.slow) for name in OWN),
        *(("mla", None), ("pooling", 2), ("mla", 2)),
    ],
)
def test_decoding_is_the_full_pass(name, window):
    position = None if name == "pooling" else "rope"
    layer = make(name, causal=True, position=position, window=window)
    full, step, x = compiled(layer), compiled(layer, "decode"), random(B, T, D)
    masks = np.ones((2, B, 1, 1, T), bool)
    masks[1, 0, ..., 0] = False
    for mask in masks:
        cache = layer.init_cache(B, T)
        assert cache.key.shape[2] == cache.value.shape[2] == (window or T)
        outputs = []
        for start, stop in ((0, 2), (2, 3), (3, 5)):
            out, cache = step(x[:, start:stop], cache, mask=mask)
            outputs.append(out)
        np.testing.assert_allclose(np.concatenate(outputs, 1), full(x, mask=mask), atol=5e-6)
    with pytest.raises(UserError, match="max_length"):
        layer.decode(x[:, :1], cache)


def test_mla_caches_the_latent_and_the_shared_key_only():
    layer = make("mla", causal=True, position="rope", latent_dim=5, rope_dim=2, dtype="bfloat16")
    cache = layer.init_cache(B, S)
    assert cache.key.shape == (B, 1, S, 5) and cache.value.shape == (B, 1, S, 2)
    assert sum(leaf.size for leaf in jax.tree.leaves(cache)) == B * S * (5 + 2) + 3 * B
    assert cache.key.dtype == cache.value.dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("position", "options"),
    [
        ("rope", {"softcap": 0.9}),
        pytest.param("alibi", {"normalizer": "sink"}, marks=pytest.mark.slow),
        ("t5", {"value_dim": 3}),
    ],
)
def test_mla_absorbed_is_expanded_is_chunked(position, options):
    given = {"causal": True, "position": position, **options}
    layer, x = make("mla", **given), random(B, T, D)
    want = compiled(layer)(x)
    absorbed, _ = compiled(layer, "decode")(x, layer.init_cache(B, T))
    np.testing.assert_allclose(absorbed, want, rtol=0, atol=5e-6)
    chunked = make("mla", implementation="chunked", block_size=2, **given)
    np.testing.assert_allclose(compiled(chunked)(x), want, rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gated", "pooling")),
        *("talking_heads", "differential", "mla"),
    ],
)
def test_no_parameter_is_dead_and_bfloat16_is_near(name):
    layer, x = make(name, causal=True), random(B, T, D)
    graphdef, state = nnx.split(layer)

    @jax.jit
    def gradients(state):
        return jax.grad(lambda state: jnp.sum(jnp.sin(nnx.merge(graphdef, state)(x))))(state)

    for path, leaf in jax.tree.leaves_with_path(gradients(state)):
        # A bias of the keys adds the same to all scores of a query.
        of_key_bias = "'key'" in str(path) and "'bias'" in str(path)
        assert of_key_bias or np.abs(leaf).max() > 1e-5, path
    narrow = make(name, causal=True, dtype="bfloat16")
    y, want = compiled(narrow)(x), compiled(layer)(x)
    assert y.dtype == jnp.bfloat16
    assert np.abs(np.asarray(y, np.float32) - want).max() < 0.03 * np.abs(want).max()
    step, _ = compiled(narrow, "decode")(x, narrow.init_cache(B, T))
    assert np.abs(np.asarray(step, np.float32) - want).max() < 0.03 * np.abs(want).max()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make("differential", num_heads=3), "num_heads=3 must be even"),
        (lambda: attend("differential", inputs("differential"), None, False, num=1), "'num'"),
        (lambda: attend("gated", inputs("gated") | {"gate": np.ones((B, T, N, 1))}, None, 0), "ga"),
        (lambda: attend("talking_heads", inputs("pooling"), None, False), "pre_mix .n n. is miss"),
        (lambda: make("pooling", position="rope"), "position='rope'"),
        (lambda: make("pooling", softcap=2.0), "softcap=2.0 contradicts"),
        (lambda: make("mla", num_kv_heads=2), "num_kv_heads=2 contradicts"),
        (lambda: make("mla", qk_norm="rms"), "qk_norm='rms' contradicts"),
        (lambda: make("mla", position="shaw"), "position='shaw'"),
        (lambda: make("mla", position="rope", rope_dim=3), "rope_dim=3"),
        (lambda: make("mla", latent_dim=0), "latent_dim=0"),
        (lambda: make("mla")(random(B, T, D), context=random(B, S, D)), "no cross-attention"),
        (lambda: make("mla").decode(random(B, T, D), None), "causal=True"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_odd_heads_are_refused_by_attend():
    q = jnp.ones((1, 2, 3, 4))
    with pytest.raises(UserError, match="num_heads=3"):
        variants.get("differential").attend(q, q, q, lam=jnp.ones(1))
