"""Attention that carries its alignment on: against float64 loops, path sums and closed forms."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference import location_sensitive, monotonic

from attention import variants
from attention.errors import UserError
from attention.ops import monotonic as ops
from attention.ops.alignment import Course

B, T, S, N, H, W, R = 3, 5, 7, 2, 6, 4, 3
REFERENCES = {"location_sensitive": location_sensitive, "monotonic": monotonic}
CASES = [
    ("location_sensitive", {}),
    ("location_sensitive", {"location_input": "cumulative"}),
    ("monotonic", {}),
    ("monotonic", {"test_mode": "hard"}),
]
over_cases = pytest.mark.parametrize(("name", "options"), CASES)
over_names = pytest.mark.parametrize("name", list(REFERENCES))
# Two segments and padding; padding first and inside; one segment.
IDS = np.array([[1, 1, 2, 2, 0], [0, 1, 0, 1, 2], [1] * 5], np.int32)
KEY_IDS = np.array([[1, 1, 1, 2, 2, 0, 0], [0, 1, 1, 2, 1, 2, 0], [1] * 7], np.int32)


def inputs(name, seed=0, b=B, t=T, s=S):
    """Returns q, k, v and the variant's arrays, in float64 but exact in float32."""
    sizes = {"b": b, "t": t, "s": s, "n": N, "h": H, "w": W, "r": R}
    axes = {"q": "b t n h", "k": "b s n h", "v": "b s n h", **REFERENCES[name].OWN}
    random = np.random.default_rng(seed)
    return {
        key: random.normal(size=[sizes[letter] for letter in letters.split()])
        .astype(np.float32)
        .astype(np.float64)
        for key, letters in axes.items()
    }


def narrow(arrays, dtype=jnp.float32):
    return {key: jnp.asarray(array, dtype) for key, array in arrays.items()}


@functools.cache
def compiled(name, **options):
    return jax.jit(functools.partial(variants.get(name).attend, **options))


def visible(ids=IDS, key_ids=KEY_IDS):
    same = (ids[:, :, None] == key_ids[:, None, :]) & (ids[:, :, None] != 0)
    return np.repeat(same[:, None], N, axis=1)


def alignment(seed=1, s=S):
    random = np.random.default_rng(seed).random((B, N, s))
    return (random / random.sum(-1, keepdims=True)).astype(np.float32)


@over_cases
@pytest.mark.parametrize("started", [False, True])
def test_values_and_weights(name, options, started):
    arrays, reference = inputs(name), REFERENCES[name]
    previous = alignment() if started else None
    given = {"segment_ids": IDS, "key_segment_ids": KEY_IDS, "previous": previous}
    rest = {"segment_ids": IDS, "previous": previous, **options}
    got = compiled(name, **options)(**narrow(arrays), **given)
    want = reference.attend(**arrays, visible=visible(), **rest)
    np.testing.assert_allclose(got, want, rtol=0, atol=3e-6)
    assert np.all(np.asarray(got)[IDS == 0] == 0.0)
    del arrays["v"]
    got = variants.get(name).weights(**narrow(arrays), **given, **options)
    np.testing.assert_allclose(
        got, reference.weights(**arrays, visible=visible(), **rest), rtol=0, atol=2e-6
    )


@over_cases
def test_gradients_are_central_differences(name, options):
    arrays, random = inputs(name), np.random.default_rng(3)
    given = {"segment_ids": IDS, "key_segment_ids": KEY_IDS}
    arrays["previous"] = alignment().astype(np.float64)
    cotangent = random.normal(size=(B, T, N, H))

    @jax.jit
    @jax.grad
    def gradient(arrays):
        out = variants.get(name).attend(**arrays, **given, **options)
        return jnp.sum(out * cotangent.astype(np.float32))

    def loss(arrays):
        out = REFERENCES[name].attend(**arrays, visible=visible(), segment_ids=IDS, **options)
        return np.sum(out * cotangent)

    gradients, moved_by = gradient(narrow(arrays)), 1e-5
    for key, found in gradients.items():
        direction = random.normal(size=found.shape)
        ends = [loss(arrays | {key: arrays[key] + sign * moved_by * direction}) for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * moved_by)
        assert abs(np.sum(found * direction) - slope) < 3e-5 * (np.linalg.norm(found) + 1.0), key


@over_cases
def test_one_query_after_the_other_is_all_at_once(name, options):
    arrays = narrow(inputs(name))
    mask = KEY_IDS[:, None, None, :] > 0
    attend = functools.partial(compiled(name, **options), mask=mask)
    weights = jax.jit(functools.partial(variants.get(name).weights, mask=mask, **options))
    want, steps, previous, total = attend(**arrays), [], None, jnp.zeros((B, N, S))
    for i in range(T):
        one = arrays | {"q": arrays["q"][:, i : i + 1]}
        steps.append(attend(**one, previous=previous))
        del one["v"]
        now = weights(**one, previous=previous)[:, :, 0]
        total = total + now
        previous = total if options.get("location_input") == "cumulative" else now
    np.testing.assert_allclose(np.concatenate(steps, axis=1), want, rtol=0, atol=2e-6)


@over_cases
def test_padding_never_shows(name, options):
    arrays, given = narrow(inputs(name)), {"segment_ids": IDS, "key_segment_ids": KEY_IDS}
    attend = compiled(name, **options)
    want = attend(**arrays, **given)
    gradient = jax.jit(jax.grad(lambda arrays: jnp.sum(attend(**arrays, **given))))
    for content in (0.0, 1e4, np.nan, np.inf):
        spoilt = dict(arrays)
        spoilt["q"] = jnp.where((IDS != 0)[..., None, None], arrays["q"], content)
        for key in "kv":
            spoilt[key] = jnp.where((KEY_IDS != 0)[..., None, None], arrays[key], content)
        np.testing.assert_array_equal(attend(**spoilt, **given), want)
        for key, found in gradient(spoilt).items():
            assert np.all(np.isfinite(found)), key
    longer = dict(arrays)
    for key in "kv":
        longer[key] = jnp.pad(arrays[key], ((0, 0), (2, 9), (0, 0), (0, 0)), constant_values=5.0)
    more = np.pad(KEY_IDS, ((0, 0), (2, 9)))
    got = attend(**longer, segment_ids=IDS, key_segment_ids=more)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


@over_cases
def test_packed_rows_give_what_separate_rows_give(name, options):
    arrays = narrow(inputs(name))
    attend = compiled(name, **options)
    packed = attend(**arrays, segment_ids=IDS, key_segment_ids=KEY_IDS)[0]
    for queries, keys in ((slice(0, 2), slice(0, 3)), (slice(2, 4), slice(3, 5))):
        alone = dict(arrays)
        alone |= {"q": arrays["q"][:1, queries], "k": arrays["k"][:1, keys]}
        alone["v"] = arrays["v"][:1, keys]
        np.testing.assert_allclose(attend(**alone)[0], packed[queries], rtol=0, atol=2e-6)


@over_cases
def test_a_query_that_sees_nothing_changes_nothing(name, options):
    arrays, attend = narrow(inputs(name)), compiled(name, **options)
    mask = np.ones((B, N, T, S), bool)
    mask[:, 1, 2] = False  # from one head's third query everything is hidden
    out = attend(**arrays, mask=mask)
    assert np.all(np.asarray(out)[:, 2, 1] == 0.0)
    np.testing.assert_allclose(out[:, :, 0], attend(**arrays)[:, :, 0], rtol=0, atol=1e-6)
    without = arrays | {"q": jnp.delete(arrays["q"], 2, axis=1)}
    np.testing.assert_allclose(out[:, 3:, 1], attend(**without)[:, 2:, 1], rtol=0, atol=1e-6)
    blind = attend(**arrays, mask=np.zeros((1, 1, 1, 1), bool))
    assert np.all(np.asarray(blind) == 0.0)


@over_cases
def test_bfloat16_rounds_inputs_and_results_only(name, options):
    arrays = narrow(inputs(name))
    low = {key: x.astype(jnp.bfloat16) if key in "qkv" else x for key, x in arrays.items()}
    out = compiled(name, **options)(**low)
    assert out.dtype == jnp.bfloat16
    wide = {key: np.asarray(x, np.float64) for key, x in low.items()}
    want = REFERENCES[name].attend(**wide, visible=np.ones((B, N, T, S), bool), **options)
    bound = 2 * 2.0**-8 * np.abs(wide["v"]).max()
    np.testing.assert_allclose(np.asarray(out, np.float64), want, rtol=0, atol=bound)


@over_names
def test_the_gradient_keeps_no_array_of_both_lengths_and_the_head(name):
    def temporary(size):
        t = s = 64
        shapes = {"q": (1, t, 1, size), "k": (1, s, 1, size), "v": (1, s, 1, size)}
        shapes |= {"score_vector": (1, size), "score_gain": (1,), "score_offset": (1,)}
        shapes |= {"location_filters": (1, W, R), "location_matrix": (1, R, size)}
        given = {
            key: jax.ShapeDtypeStruct(shapes[key], jnp.float32)
            for key in ("q", "k", "v", *REFERENCES[name].OWN)
        }
        loss = jax.grad(lambda arrays: jnp.sum(jnp.sin(variants.get(name).attend(**arrays))))
        return jax.jit(loss).lower(given).compile().memory_analysis().temp_size_in_bytes

    more = temporary(64) - temporary(32)
    assert more < 64 * 64 * 32 * 4 / 2, "half of what the tanh of every pair would take"


# -- what is particular to each -------------------------------------------------------------------


def test_filters_of_zero_are_additive_attention():
    arrays = inputs("location_sensitive")
    arrays["location_filters"] *= 0.0
    got = variants.get("location_sensitive").attend(**narrow(arrays))
    vector = jnp.asarray(arrays["score_vector"], jnp.float32)
    qkv = narrow({key: arrays[key] for key in "qkv"})
    want = variants.get("additive").attend(**qkv, score_vector=vector)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("width", "tap", "shift"), [(3, 0, 1), (3, 2, -1), (4, 0, 2), (1, 0, 0)])
def test_a_filter_with_one_tap_reads_the_weight_at_its_distance(width, tap, shift):
    """A score of nothing but f: w = 1 at o, so f_j = α_{j+o−⌊w/2⌋}, and zero past the ends."""
    filters = np.zeros((1, width, 1), np.float32)
    filters[0, tap] = 1.0
    zeros, previous = np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 1, 5), np.float32)
    previous[0, 0, 2] = 1.0
    weights = variants.get("location_sensitive").weights(
        zeros,
        np.zeros((1, 5, 1, 1), np.float32),
        previous=previous,
        score_vector=np.full((1, 1), 2.0, np.float32),
        location_filters=filters,
        location_matrix=np.ones((1, 1, 1), np.float32),
    )[0, 0, 0]
    scores = np.zeros(5)
    scores[2 + shift] = 2.0 * np.tanh(1.0)
    np.testing.assert_allclose(weights, np.exp(scores) / np.exp(scores).sum(), atol=1e-6)


def probabilities(arrays):
    """Returns p [b n t s], the energies of equation 16 put through a sigmoid, in float64."""
    hidden = np.tanh(arrays["q"][:, :, None] + arrays["k"][:, None])
    u = arrays["score_vector"]
    u = arrays["score_gain"][:, None] * u / np.linalg.norm(u, axis=-1, keepdims=True)
    energy = np.einsum("btsnh,nh->bnts", hidden, u) + arrays["score_offset"][None, :, None, None]
    return 1.0 / (1.0 + np.exp(-energy))


def test_monotonic_weights_are_sums_over_whole_paths():
    """Each path t₁ ≤ t₂ ≤ … ≤ t_i of stops, from key 0 on, and how likely it is."""
    arrays = inputs("monotonic", b=2, t=4, s=5)
    p = probabilities(arrays)
    want = np.zeros_like(p)
    for b, n, i in np.ndindex(*p.shape[:3]):
        for path in itertools.combinations_with_replacement(range(p.shape[3]), i + 1):
            chance, at = 1.0, 0
            for query, stop in enumerate(path):
                chance *= np.prod(1.0 - p[b, n, query, at:stop]) * p[b, n, query, stop]
                at = stop
            want[b, n, i, path[-1]] += chance
    del arrays["v"]
    got = variants.get("monotonic").weights(**narrow(arrays))
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-7)
    sums = np.asarray(got).sum(-1)
    assert np.all(sums <= 1.0 + 1e-6) and np.all(np.diff(sums, axis=-1) <= 1e-6)
    assert sums.min() < 0.9, "some mass should be lost here"


def test_monotonic_closed_forms():
    zeros = np.zeros((1, 3, 1, 1), np.float32)
    keys = np.zeros((1, 4, 1, 1), np.float32)

    def weights(offset):
        return variants.get("monotonic").weights(
            zeros,
            keys,
            score_vector=np.ones((1, 1), np.float32),
            score_gain=np.ones(1, np.float32),
            score_offset=np.full(1, offset, np.float32),
        )[0, 0]

    halves = [
        [1 / 2, 1 / 4, 1 / 8, 1 / 16],
        [1 / 4, 2 / 8, 3 / 16, 4 / 32],
        [1 / 8, 3 / 16, 6 / 32, 10 / 64],
    ]
    np.testing.assert_allclose(weights(0.0), halves, rtol=1e-6)
    np.testing.assert_allclose(weights(200.0), np.eye(1, 4).repeat(3, 0), atol=1e-7)
    assert np.all(np.asarray(weights(-200.0)) == 0.0)


def test_long_contexts_lose_no_digits():
    """Many keys, some of them all but certain: the products come to 1e-200."""
    s, random = 1200, np.random.default_rng(5)
    energy = np.where(random.random((3, s)) < 0.5, -12.0, -1.0) + random.normal(size=(3, s))
    energy[:, 500:510] = -60.0
    energy[1, 700] = 60.0
    first = ops.first(1, 1, s)
    seen, resets = jnp.ones((1, 1, 3, s), bool), jnp.zeros((1, 3), bool)
    course = Course(seen, resets, first, first)

    def mean_place(energy):
        weights = ops.align(energy, course, hard=False).weights
        return jnp.sum(weights * jnp.arange(s)[None, None, None]), weights

    gradient, got = jax.grad(mean_place, has_aux=True)(jnp.asarray(energy, jnp.float32)[None, None])
    assert np.all(np.isfinite(gradient))
    alignment = np.eye(1, s)[0]
    for i, row in enumerate(energy.astype(np.float32).astype(np.float64)):
        stops, passes = 1 / (1 + np.exp(-row)), 1 / (1 + np.exp(row))
        reached, after = 0.0, np.zeros(s)
        for j in range(s):
            reached = alignment[j] + (passes[j - 1] * reached if j else 0.0)
            after[j] = stops[j] * reached
        alignment = after
        np.testing.assert_allclose(np.asarray(got)[0, 0, i], after, rtol=1e-4, atol=1e-30)


def test_hard_weights_are_one_key_or_none():
    arrays = inputs("monotonic")
    p = probabilities(arrays)
    del arrays["v"]
    got = np.asarray(variants.get("monotonic").weights(**narrow(arrays), test_mode="hard"))
    for b, n in np.ndindex(B, N):
        at = 0
        for i in range(T):
            stops = [j for j in range(at, S) if p[b, n, i, j] > 0.5] if at is not None else []
            at = stops[0] if stops else None
            np.testing.assert_array_equal(got[b, n, i], np.arange(S) == (-1 if at is None else at))
    assert 0 < got.sum() < B * N * T, "some attend, some to nothing"


@over_names
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"causal": True}, "cannot be causal"),
        ({"previous": np.zeros((B, N, 1), np.float32)}, r"previous has shape.*\[b n s\]"),
        ({"score_vector": np.zeros((N, H + 1), np.float32)}, "score_vector has shape"),
        ({"score_vectors": 1}, "did you mean 'score_vector'"),
        ({"segment_ids": IDS}, "missing"),
    ],
)
def test_refusals(name, change, words):
    with pytest.raises(ValueError, match=words):
        variants.get(name).attend(**{**narrow(inputs(name)), **change})


@over_names
def test_arrays_must_be_given(name):
    arrays = narrow(inputs(name))
    del arrays["score_vector"]
    with pytest.raises(ValueError, match=r"score_vector \[n h\] is missing"):
        variants.get(name).attend(**arrays)


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("location_sensitive", {"location_input": "last"}, "one of previous, cumulative"),
        ("location_sensitive", {"width": 0}, "width=0"),
        ("location_sensitive", {"num_filters": 0}, "num_filters=0"),
        ("monotonic", {"test_mode": "sof"}, "did you mean 'soft'"),
        ("monotonic", {"noise": -1.0}, "noise=-1.0"),
        ("monotonic", {"initial_offset": "low"}, "initial_offset='low'"),
    ],
)
def test_wrong_options_are_named(name, option, words):
    with pytest.raises(UserError, match=words):
        variants.get(name).Config(**option)
