"""Attention against other libraries' outputs, stored by tests/golden/make_golden.py.

Names that the files share with us are given to us as they are; tests/golden/README.md lists them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.golden import cases, check, names, read

from attention import positions, variants

pytestmark = pytest.mark.fast


class Function(NamedTuple):
    """`attend` of a variant against a file; its cases are full, masked and causal."""

    file: str
    variant: str
    own: tuple[str, ...] = ()  # arrays of the file that it takes besides q, k, v
    options: dict[str, Any] = {}  # noqa: RUF012


class Layer(NamedTuple):
    """A layer with a file's weights; it is causal if the file's case is."""

    file: str
    variant: str
    num_heads: int
    head_dim: int
    options: dict[str, Any] = {}  # noqa: RUF012
    position: str | None = None
    position_options: dict[str, Any] = {}  # noqa: RUF012
    layer_index: int = 0


FUNCTIONS = (
    Function("scaled_dot_torch", "scaled_dot"),
    Function("scaled_dot_jax", "scaled_dot"),
    Function("dot_torch", "dot"),
    Function("general_torch", "general", ("score_matrix",)),
    Function("additive_keras", "additive", ("score_vector",)),
    Function("cosine_x_transformers", "cosine", ("temperature",)),
    Function("l2_x_transformers", "l2"),
    Function("softmax1_x_transformers", "softmax1"),
    Function("softmax1_x_transformers", "scaled_dot", (), {"normalizer": "softmax1"}),
    Function("sink_transformers", "sink", ("sink",)),
    Function("sink_transformers", "scaled_dot", ("sink",), {"normalizer": "sink"}),
    Function("sink_jax", "sink", ("sink",)),
    Function("sigmoid_x_transformers", "sigmoid"),
    Function("sigmoid_x_transformers", "scaled_dot", (), {"normalizer": "sigmoid"}),
    Function("talking_heads_x_transformers", "talking_heads", ("pre_mix", "post_mix")),
    Function("differential_transformers", "differential", ("lam",)),
    Function("gated_transformers", "gated", ("gate",)),
    Function("softcap_transformers", "scaled_dot", (), {"softcap": 1.5}),
    Function("t5_transformers", "dot", ("bias_table",)),
    Function("shaw_transformers", "scaled_dot", ("key_table", "value_table")),
)
MLA = {"latent_dim": 4, "rope_dim": 6, "value_dim": 7}
INTERLEAVED = ("rope", {"layout": "interleaved"})
LAYERS = (
    Layer("rope_llama_transformers", "scaled_dot", 4, 6, {"num_kv_heads": 2}, "rope"),
    Layer(
        *("rope_gptj_transformers", "scaled_dot", 4, 6, {}),
        *("rope", {"layout": "interleaved", "fraction": 4 / 6}),
    ),
    Layer("alibi_bloom_transformers", "scaled_dot", 3, 6, {}, "alibi"),
    Layer("qk_norm_layer_flax", "scaled_dot", 4, 6, {"qk_norm": "layer"}),
    Layer("qk_norm_rms_transformers", "gated", 4, 6, {"qk_norm": "rms", "num_kv_heads": 2}),
    Layer("differential_layer_transformers", "differential", 4, 6, layer_index=2),
    Layer("mla_transformers", "mla", 3, 5, {**MLA, "q_latent_dim": 5}, *INTERLEAVED),
    Layer("mla_full_queries_transformers", "mla", 3, 5, MLA, *INTERLEAVED),
)
WINDOWS = {"both": (2, 1), "left": (1, 0), "right": (0, 2)}
# Case of rope_transformers → options of our scheme.
YARN_SHORT = {"factor": 8.0, "original_max_length": 64, "beta_fast": 8.0, "beta_slow": 2.0}
ROPES = {
    "half": {},
    "base": {"base": 500.0},
    "linear": {"scaling": "linear", "factor": 4.0},
    "ntk": {"scaling": "ntk", "factor": 4.0},
    "yarn": {"scaling": "yarn", "factor": 4.0, "original_max_length": 2048},
    "yarn_short": {"scaling": "yarn", **YARN_SHORT, "attention_factor": 1.25},
    "interleaved": {"layout": "interleaved"},
    "interleaved_part": {"layout": "interleaved", "fraction": 6 / 16},
}


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: f"{case.file}-{case.variant}")
def test_function(case):
    attend, file = needed(case.variant).attend, read(case.file)
    conditions = {"full": {}, "masked": {"mask": file.get("mask")}, "causal": {"causal": True}}
    for name in cases(file):
        # Query 0 sits at key 0, whatever the lengths.
        given = {**case.options, **conditions[name], "query_offset": 0}

        def run(q, k, v, given=given, **own):
            return attend(q, k, v, **own, **given)

        check(run, file, name, ("q", "k", "v", *case.own))


@pytest.mark.parametrize("variant", ["scaled_dot", "sliding_window"])
@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("window", WINDOWS)
def test_window(window, causal, variant):
    attend = needed(variant).attend

    def run(q, k, v):
        return attend(q, k, v, window=WINDOWS[window], causal=causal)

    case = f"{window}_causal" if causal else window
    check(run, read("sliding_window_jax"), case, ("q", "k", "v"))


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: case.file)
def test_layer(case):
    file = read(case.file)
    (name,) = cases(file)
    scheme = None
    if case.position is not None:
        scheme = needed_position(case.position).Config(**case.position_options)
    layer = loaded(
        file,
        case.variant,
        **{"num_heads": case.num_heads, "head_dim": case.head_dim, "causal": name == "causal"},
        **{"position": scheme, "layer_index": case.layer_index, **case.options},
    )
    check(layer, file, name, ("x",), atol=1e-5, compiled=True)


@pytest.mark.long
@pytest.mark.parametrize("name", ["first", "some", "padded"])
def test_longformer(name):
    file = read("longformer_transformers")
    options = {"num_heads": 2, "head_dim": 3, "window": tuple(file["window"].tolist())}
    layer = loaded(file, "longformer", **options)
    ids = file.get(f"{name}_segment_ids")
    conditions = {} if ids is None else {"segment_ids": jnp.asarray(ids)}
    if f"{name}_global_mask" in file:
        conditions["global_mask"] = jnp.asarray(file[f"{name}_global_mask"])
    # A padded row is zeros there, and whatever the output projection makes of zeros here: zeros.
    check(lambda x: layer(x, **conditions), file, name, ("x",))


@pytest.mark.long
@pytest.mark.parametrize("name", ["fixed", "random"])
def test_bigbird_pattern_is_a_mask_of_blocks(name):
    """The pattern as we describe it: ends global, neighbours, and the blocks that it drew."""
    file = read("bigbird_transformers")
    count, size = file["fixed_blocks"].shape[-1], int(file["block_size"])
    index = np.arange(count)
    ends = (index == 0) | (index == count - 1)
    near = np.abs(index[:, None] - index[None, :]) <= 1
    blocks = np.broadcast_to(near | ends[:, None] | ends[None, :], file["fixed_blocks"].shape)
    blocks = blocks.copy()
    if name == "random":
        for head, block, chosen in np.ndindex(file["random_choice"].shape):
            blocks[head, block + 1, file["random_choice"][head, block, chosen]] = True
    np.testing.assert_array_equal(blocks, file[f"{name}_blocks"])
    mask = jnp.asarray(np.kron(blocks, np.ones((size, size), bool))[None])
    attend = needed("scaled_dot").attend
    check(lambda q, k, v: attend(q, k, v, mask=mask), file, name, ("q", "k", "v"))


def test_bigbird_without_random_blocks():
    file = read("bigbird_transformers")
    options = {"pattern_block": int(file["block_size"]), "num_random": 0}
    attend = needed("bigbird").attend
    check(lambda q, k, v: attend(q, k, v, **options), file, "fixed", ("q", "k", "v"))


@pytest.mark.parametrize("name", ROPES)
def test_rope(name):
    file = read("rope_transformers")
    config = needed_position("rope").Config(**ROPES[name])
    scheme = positions.make(config, file["x"].shape[-1], num_heads=2, rngs=nnx.Rngs(0))
    turned = scheme.rotate(jnp.asarray(file["x"]), jnp.asarray(file["positions"]))
    np.testing.assert_allclose(turned, file[f"{name}_out"], rtol=0, atol=2e-5)


def test_t5_buckets():
    file = read("t5_buckets_transformers")
    distance = jnp.asarray(file["distance"])[None, None, :]
    for (bidirectional, count, farthest), buckets in zip(
        file["settings"].tolist(), file["buckets"], strict=True
    ):
        config = needed_position("t5").Config(num_buckets=count, max_distance=farthest)
        scheme = positions.make(config, 4, num_heads=1, causal=not bidirectional, rngs=nnx.Rngs(0))
        # A table of its own row numbers gives the bucket as the bias.
        table = jnp.arange(count, dtype=jnp.float32)[:, None]
        bias = bias_of(scheme, distance, bias_table=table)
        np.testing.assert_array_equal(bias[0, 0, 0], buckets)


@pytest.mark.long
def test_alibi_slopes():
    file = read("alibi_slopes_transformers")
    distance = jnp.asarray([[[-1, 0, 3]]], jnp.int32)
    for heads in range(1, 21):
        needed_position("alibi")
        scheme = positions.make("alibi", 4, num_heads=heads, rngs=nnx.Rngs(0))
        bias = bias_of(scheme, distance, **scheme.arrays())[0, :, 0]
        slopes = file[f"slopes_{heads}"][:, None]
        np.testing.assert_allclose(bias, -slopes * np.array([[1, 0, 3]]), rtol=5e-7, atol=0)


def test_every_file_is_checked_and_says_what_made_it():
    by_name = set(names()) - {"entmax"}
    others = {"sliding_window_jax", "longformer_transformers", "bigbird_transformers"}
    others |= {"rope_transformers", "t5_buckets_transformers", "alibi_slopes_transformers"}
    # Checked in test_golden_in_order.py and in tests/models.
    others |= {"location_sensitive_espnet", "monotonic_tensorflow_addons", "pointer_opennmt"}
    assert by_name == others | {case.file for case in (*FUNCTIONS, *LAYERS)}
    for name in by_name:
        assert all(len(made_by.split()) == 2 for made_by in read(name)["library"])


def needed(variant: str):
    """Returns the variant's module."""
    if variant not in variants.names():
        pytest.skip(f"there is no variant {variant!r} yet")
    return variants.get(variant)


def needed_position(name: str):
    """Returns the position scheme's module."""
    if name not in positions.names():
        pytest.skip(f"there is no position scheme {name!r} yet")
    return positions.get(name)


def bias_of(scheme, distance, **arrays):
    """Returns what a position scheme adds to the scores at these distances."""
    relative = scheme.relative()
    assert relative is not None
    bias = relative.bias(distance, **arrays)
    assert bias is not None
    return bias


def loaded(file, variant: str, **settings):
    """Makes a layer with the file's weights; a bias that the file lacks is zero."""
    needed(variant)
    layer = variants.make(variant, dim=file["x"].shape[-1], **settings, rngs=nnx.Rngs(0))
    stored = {name.removeprefix("layer."): a for name, a in file.items() if "layer." in name}
    state = nnx.state(layer, nnx.Param)
    flat = nnx.to_flat_state(state)
    for path, parameter in flat:
        name = ".".join(str(part) for part in path)
        if name.endswith("bias") and name not in stored:
            stored[name] = np.zeros(parameter.shape, np.float32)
        assert name in stored, f"the file has {sorted(stored)}, and nothing for {name}"
        assert parameter.shape == stored[name].shape, name
        parameter[...] = jnp.asarray(stored.pop(name))
    assert not stored, f"the layer has no {sorted(stored)}"
    nnx.update(layer, nnx.from_flat_state(flat))
    return layer
