"""Sparse variants: computed from the selected keys alone, they give what the mask gives."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from reference import longformer as longformer_reference
from support.visibility import visible_pairs

from attention import variants
from attention.core import attending
from attention.core.dropout import Dropout
from attention.errors import UserError

BATCH, LENGTH, HEADS, KV_HEADS, SIZE = 2, 70, 4, 2, 6
# Segments start at multiples of 4, and padding stands between and behind them.
IDS = np.zeros((BATCH, LENGTH), np.int32)
IDS[0, :30], IDS[0, 32:65], IDS[1, :3], IDS[1, 4:36], IDS[1, 36:] = 1, 2, 3, 1, 2
RANDOM = np.random.default_rng(2)
FULL = RANDOM.random((BATCH, HEADS, LENGTH, LENGTH)) < 0.8
FULL[0, 1, 5] = False
MARKED = RANDOM.random((BATCH, LENGTH)) < 0.1
MASKS = {
    "no mask": None,
    "padding": FULL[:, :1, :1],
    "every pair": FULL,
    "by head and key": FULL[:1, :, :1],
    "by query": FULL[:, :1, :, :1],
    "one row": FULL[:1, :1],
}


class Case(NamedTuple):
    name: str
    options: dict[str, Any]
    mask: str
    segments: bool = False
    causal: bool = False

    def __str__(self) -> str:
        words = [self.name, *(f"{k}={v}" for k, v in self.options.items() if k != "global_mask")]
        words += [self.mask, "segments" * self.segments, "causal" * self.causal]
        return "-".join(word for word in words if word)


CASES = [
    Case("sliding_window", {"window": (5, 2)}, "every pair", segments=True),
    Case("sliding_window", {"window": 20}, "one row", causal=True),
    Case("dilated", {"window": (5, 2), "dilation": 3}, "every pair", segments=True),
    Case("dilated", {"window": 20}, "padding", causal=True, segments=True),
    Case("strided", {"stride": 8}, "every pair", segments=True),
    Case("strided", {"stride": 9}, "by head and key", causal=True),
    Case("fixed", {"stride": 8, "summary": 3}, "every pair", segments=True),
    Case("fixed", {"stride": 7, "summary": 2}, "by query", causal=True, segments=True),
    Case("bigbird", {"pattern_block": 4, "num_random": 1}, "every pair", segments=True),
    Case("bigbird", {"pattern_block": 8, "num_random": 0}, "by head and key"),
    Case("bigbird", {"pattern_block": 2, "num_random": 3}, "by query", segments=True),
    Case("longformer", {"window": (5, 2)}, "every pair", segments=True),
    Case("longformer", {"window": 3}, "no mask"),
    Case("longformer", {"window": 3, "global_mask": MARKED}, "every pair", segments=True),
    Case("longformer", {"window": 20, "global_mask": MARKED[:1]}, "padding"),
]


def draw(*shapes: tuple[int, ...], seed: int = 0) -> list[jax.Array]:
    random = np.random.default_rng(seed)
    return [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]


def inputs(length: int = LENGTH) -> list[jax.Array]:
    heads = (HEADS, KV_HEADS, KV_HEADS)
    return draw(*((BATCH, length, n, SIZE) for n in heads))


def values_and_gradients(attend, arrays):
    (cotangent,) = draw(arrays[0].shape, seed=1)
    out, pull = jax.vjp(attend, *arrays)
    return out, *pull(cotangent)


def assert_same(got, want) -> None:
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def first_of_each(cases: list[Case]) -> list[Any]:
    """Marks all but the first case of each variant as slow."""
    names = [case.name for case in cases]
    return [
        case if names.index(case.name) == i else pytest.param(case, marks=pytest.mark.slow)
        for i, case in enumerate(cases)
    ]


@pytest.mark.parametrize("case", first_of_each(CASES), ids=str)
def test_selected_keys_give_what_the_mask_gives(case):
    """Values and gradients, "plain" and "chunked", equal scaled_dot's under `visible`."""
    variant, given = variants.get(case.name), {"causal": case.causal}
    if MASKS[case.mask] is not None:
        given["mask"] = MASKS[case.mask]
    if case.segments:
        given["segment_ids"] = IDS
    sees = variant.visible(LENGTH, LENGTH, **given, **case.options)

    @jax.jit
    def all_ways(arrays):
        under_mask = values_and_gradients(
            lambda q, k, v: variants.get("scaled_dot").attend(q, k, v, mask=sees), arrays
        )
        ways = [
            values_and_gradients(
                lambda q, k, v, way=way: variant.attend(
                    q, k, v, **given, **case.options, implementation=way
                ),
                arrays,
            )
            for way in ("plain", "chunked")
        ]
        return under_mask, *ways

    want, plain, chunked = all_ways(inputs())
    assert_same(plain, want)
    assert_same(chunked, want)


@pytest.mark.parametrize("position", ["slopes", "key_table"])
def test_positions_within_selected_keys(position):
    arrays = {"slopes": draw((HEADS,))[0]}
    if position == "key_table":
        tables = draw(*2 * [(9, SIZE)], seed=4)
        arrays = dict(zip(("key_table", "value_table"), tables, strict=True))
    for name, options in (
        ("strided", {"stride": 8}),
        ("longformer", {"window": 3, "global_mask": MARKED}),
    ):
        plain, chunked = (
            variants.get(name).attend(
                *inputs(), **options, **arrays, segment_ids=IDS, implementation=way
            )
            for way in ("plain", "chunked")
        )
        np.testing.assert_allclose(chunked, plain, rtol=1e-5, atol=1e-5)


# -- Longformer: projections of their own ----------------------------------------------------------


@pytest.mark.parametrize("way", ["plain", "chunked"])
@pytest.mark.parametrize("global_mask", [None, MARKED], ids=["first", "marked"])
def test_global_queries_have_projections_of_their_own(way, global_mask):
    q, k, v = inputs()
    of_global = draw(q.shape, k.shape, v.shape, seed=5)
    names = ("global_q", "global_k", "global_v")
    got = variants.get("longformer").attend(
        q,
        k,
        v,
        **dict(zip(names, of_global, strict=True)),
        window=(5, 2),
        global_mask=global_mask,
        segment_ids=IDS,
        implementation=way,
    )
    pattern = longformer_reference.pattern(
        LENGTH, LENGTH, causal=False, segment_ids=IDS, window=(5, 2), global_mask=global_mask
    )
    shape = (BATCH, HEADS, LENGTH, LENGTH)
    sees = visible_pairs(shape, segment_ids=IDS) & pattern[:, None]
    first = longformer_reference.global_tokens(LENGTH, IDS)
    wide = [np.asarray(array, np.float64) for array in (q, k, v, *of_global)]
    want = longformer_reference.attend(
        *wide[:3],
        sees,
        is_global=first if global_mask is None else global_mask,
        **dict(zip(names, wide[3:], strict=True)),
    )
    np.testing.assert_allclose(got, want, rtol=0, atol=5e-6)


def test_longformer_layer_is_its_function():
    """The layer's rows of global tokens, weights and values, come from the global projections."""
    settings = {"dim": 16, "num_heads": HEADS, "window": (5, 2), "num_kv_heads": KV_HEADS}
    layer = variants.make("longformer", **settings, position="rope", rngs=nnx.Rngs(0))
    (x,) = draw((BATCH, LENGTH, 16))
    given = {"segment_ids": IDS, "global_mask": MARKED}
    local, far = (layer._projected(kind, x, IDS, None) for kind in ("local", "global"))
    assert np.abs(local[0] - far[0]).max() > 0.1
    of_global = dict(zip(("global_q", "global_k", "global_v"), far, strict=True))
    heads = variants.get("longformer").attend(*local, **of_global, **given, window=(5, 2))
    want = layer.out(heads.reshape(BATCH, LENGTH, 16))
    np.testing.assert_allclose(layer(x, **given), want, rtol=0, atol=1e-5)
    weights = layer.weights(x, **given)
    from_local, from_global = (
        jnp.einsum("bnts,bsnh->btnh", weights, jnp.repeat(v, 2, axis=2)) for v in (local[2], far[2])
    )
    is_global = (MARKED & (IDS != 0))[:, :, None, None]
    together = jnp.where(is_global, from_global, from_local)
    np.testing.assert_allclose(together, heads, rtol=0, atol=1e-5)


def test_equal_projections_are_one_mechanism():
    """Then the layer is that of row 1 under the pattern, turned and normed queries included."""
    settings = {"dim": 16, "num_heads": HEADS, "qk_norm": "rms", "position": "rope"}
    layer = variants.make("longformer", **settings, window=3, rngs=nnx.Rngs(0))
    for kind in ("query", "key", "value"):
        nnx.update(getattr(layer, f"{kind}_global"), nnx.state(getattr(layer, kind)))
    layer.query_norm.gain[...] = layer.query_norm.gain[...] * 1.7
    (x,) = draw((BATCH, LENGTH, 16))
    q, k = layer.queries_and_keys(x, None, IDS, None)
    sees = variants.get("longformer").visible(LENGTH, LENGTH, segment_ids=IDS, window=3)
    v = layer._projected("local", x, IDS, None)[2]
    heads = variants.get("scaled_dot").attend(q, k, v, mask=sees)
    want = layer.out(heads.reshape(BATCH, LENGTH, 16))
    np.testing.assert_allclose(layer(x, segment_ids=IDS), want, rtol=0, atol=1e-5)


def test_longformer_refuses():
    q, k, v = inputs()
    attend = variants.get("longformer").attend
    for given, message in (
        ({"global_q": q}, "all or none"),
        ({"global_mask": MARKED[:, 1:]}, "must be boolean"),
        ({"global_mask": MARKED.astype(np.int32)}, "must be boolean"),
    ):
        with pytest.raises(ValueError, match=message):
            attend(q, k, v, **given)
    layer = variants.make("longformer", dim=8, num_heads=2, rngs=nnx.Rngs(0))
    x = jnp.zeros((1, 3, 8))
    for call in (layer, layer.weights):
        with pytest.raises(UserError, match="reads one sequence"):
            call(x, context=x)


# -- Big Bird --------------------------------------------------------------------------------------


def test_every_bigbird_layer_draws_for_itself():
    def blocks_of(**given):
        layer = variants.make("bigbird", dim=8, num_heads=2, rngs=nnx.Rngs(0), **given)
        return layer.config.layer

    assert blocks_of() == 0
    assert blocks_of(layer_index=3) == 3
    assert blocks_of(layer_index=3, layer=1) == 1
    visible, small = variants.get("bigbird").visible, {"pattern_block": 2, "num_random": 2}
    draws = [np.asarray(visible(40, 40, **small, layer=layer)) for layer in (0, 1)]
    assert np.any(draws[0] != draws[1])


def test_segments_that_start_within_a_block_are_refused_or_nan():
    variant, arrays = variants.get("bigbird"), inputs()
    options = {"pattern_block": 8, "implementation": "chunked"}
    ids = np.zeros((BATCH, LENGTH), np.int32)
    ids[0, :16], ids[0, 20:60], ids[1] = 1, 2, 1
    with pytest.raises(UserError, match=r"starts at place 20 of row 0.*pattern_block=8"):
        variant.attend(*arrays, segment_ids=ids, **options)
    with pytest.raises(UserError):
        jax.jit(lambda arrays: variant.attend(*arrays, segment_ids=ids, **options))(arrays)

    @jax.jit
    def both(arrays, ids):
        ways = (options, options | {"implementation": "plain"})
        return [variant.attend(*arrays, segment_ids=ids, **way) for way in ways]

    chunked, plain = both(arrays, jnp.asarray(ids))
    astray = ids == 2
    assert np.all(np.isnan(chunked[astray]))
    np.testing.assert_allclose(chunked[~astray], plain[~astray], rtol=1e-5, atol=1e-5)


# -- dropout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [("strided", {"stride": 8}), ("bigbird", {"pattern_block": 4})],
    ids=["groups", "rows"],
)
def test_dropout_keeps_the_mean_of_selected_keys(name, options):
    """Of values that are all 1 the mean over 2 · 70 · 4 results stays 1; each has its own draw."""
    variant = variants.get(name)
    q, k, v = inputs()
    out = attending.attend(
        variant.VARIANT.parts(variant.Config(**options)),
        0.1 * q,
        k,
        jnp.ones_like(v),
        arrays={},
        implementation="chunked",
        drop=Dropout(0.3).draw(nnx.Rngs(0)),
    )[..., 0]
    # One result of m equal weights varies by √(0.3 / 0.7 / m); m is 15 or more.
    assert abs(float(out.mean()) - 1.0) < 5 * np.sqrt(0.3 / 0.7 / 15 / out.size)
    assert 0.05 < float(out.std()) < 0.25
    assert float(out.std(axis=(0, 2)).min()) > 0.01, "some query drops nothing"
    assert len(np.unique(np.asarray(out).round(5))) > out.size / 2


# -- room for global tokens ------------------------------------------------------------------------


def test_what_there_is_no_room_for_is_nan():
    ids = np.zeros((BATCH, LENGTH), np.int32)
    ids[0, :32], ids[0, 32:64], ids[1, :32] = 1, 2, 1
    arrays = inputs()
    for name, options, tokens in (
        ("bigbird", {"pattern_block": 4, "num_random": 0}, 16),
        ("longformer", {"window": 3}, 2),
        ("longformer", {"window": 3, "global_mask": np.arange(LENGTH)[None] % 16 == 1}, 4),
    ):
        attend = variants.get(name).attend

        @jax.jit
        def both(arrays, attend=attend, options=options, tokens=tokens):
            given = options | {"segment_ids": jnp.asarray(ids), "implementation": "chunked"}
            enough = attend(*arrays, **given, max_global_tokens=tokens)
            return enough, attend(*arrays, **given, max_global_tokens=tokens - 1)

        enough, too_few = both(arrays)
        assert np.all(np.isfinite(enough))
        lost = np.isnan(too_few).all(axis=(2, 3))
        assert lost[0].any() and not lost[1].any()
        np.testing.assert_allclose(too_few[~lost], enough[~lost], rtol=1e-5, atol=1e-5)


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sliding_window", {"window": None}, "window=None"),
        ("dilated", {"window": -1}, "window=-1"),
        ("dilated", {"dilation": 0}, "dilation=0"),
        ("strided", {"stride": 0}, "stride=0"),
        ("strided", {"window": 3}, "contradicts"),
        ("fixed", {"stride": 2.0}, "stride=2.0"),
        ("fixed", {"stride": 4, "summary": 5}, "summary=5"),
        ("fixed", {"summary": 0}, "summary=0"),
        ("bigbird", {"pattern_block": 0}, "pattern_block=0"),
        ("bigbird", {"num_random": -1}, "num_random=-1"),
        ("bigbird", {"max_global_tokens": 0}, "max_global_tokens=0"),
        ("longformer", {"window": (1, 2, 3)}, "window="),
        ("longformer", {"max_global_tokens": 1.5}, "max_global_tokens=1.5"),
    ],
)
def test_wrong_options_are_refused(name, options, message):
    with pytest.raises(UserError, match=message):
        variants.get(name).Config(**options)


@pytest.mark.fast
def test_bigbird_says_where_segments_may_start():
    module = variants.get("bigbird")
    assert module.Config().pattern_block == module.PACK_MULTIPLE
    assert dataclasses.replace(module.Config(), pattern_block=16).pack_multiple == 16
