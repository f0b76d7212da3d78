"""Whole attention layers of `transformers` with their weights, in float64.

"layer.NAME" is a parameter of ours: kernels are [in out], and out = x · kernel + bias.
"""

from __future__ import annotations

import math

import numpy as np

from witnesses.common import (
    Arrays,
    causal,
    compare,
    draw,
    heads_like,
    library,
    record,
    rms_norm,
    rotate,
    scaled,
    softmax,
    weigh,
)
from witnesses.from_transformers import VERSIONS
from witnesses.transformers_modules import additive_mask, bare_rotation, config_for, drawn, linears

BATCH, LENGTH, HEADS, HEAD_DIM, DIM = 2, 7, 4, 6, 12
PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "o_proj"}
SEEN = causal(LENGTH, LENGTH)
X = (BATCH, LENGTH, DIM)


def rope_llama_transformers() -> Arrays:
    """Row 18, layout half: 2 key heads, biases, causal."""
    from transformers.models.llama import modeling_llama as llama

    options = {"hidden_size": DIM, "num_key_value_heads": 2, "attention_bias": True}
    config = config_for(llama.LlamaConfig, HEADS, HEAD_DIM, **options)
    module = drawn(llama.LlamaAttention(config, layer_idx=0), 60)
    embedding = llama.LlamaRotaryEmbedding(config)

    def run(x):
        return module(x, embedding(x, _places()), additive_mask(SEEN))[0]

    kept = _recorded(run, 61, X, linears(module, PROJECTIONS))
    pairs = HEAD_DIM // 2
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(pairs) / pairs)
    q, k, v = (_heads(kept, name) for name in ("query", "key", "value"))
    q, k = rotate(q, angles, False), rotate(k, angles, False)
    compare("causal", kept["causal_out"], _out(kept, weigh(softmax(scaled(q, k), SEEN), v)))
    return kept


def rope_gptj_transformers() -> Arrays:
    """Row 18, layout interleaved, 4 of 6 features turn, no biases, causal."""
    from transformers.models.gptj import modeling_gptj as gptj

    rotary, width = 4, HEADS * HEAD_DIM
    config = gptj.GPTJConfig(
        n_embd=width, n_head=HEADS, rotary_dim=rotary, n_positions=16, attn_pdrop=0.0
    )
    config._attn_implementation = "eager"
    module = drawn(gptj.GPTJAttention(config, layer_idx=0), 62)
    embedding = gptj.GPTJRotaryEmbedding(config)

    def run(x):
        return module(x, embedding(x, _places()), additive_mask(SEEN))[0]

    weights = linears(module, {**PROJECTIONS, "out": "out_proj"})
    kept = _recorded(run, 63, (BATCH, LENGTH, width), weights)
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(2) / 2)
    q, k, v = (_heads(kept, name) for name in ("query", "key", "value"))
    q, k = rotate(q, angles, True), rotate(k, angles, True)
    compare("causal", kept["causal_out"], _out(kept, weigh(softmax(scaled(q, k), SEEN), v)))
    return kept


def alibi_bloom_transformers() -> Arrays:
    """Row 17 under causal softmax, where bloom's bias −m·(L − j) and ours, −m·(i − j), agree."""
    import torch
    from transformers.models.bloom import modeling_bloom as bloom

    heads = 3  # no power of two
    width = heads * HEAD_DIM
    options = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    config = bloom.BloomConfig(hidden_size=width, n_head=heads, **options)
    module = drawn(bloom.BloomAttention(config, layer_idx=0), 64)
    alibi = bloom.build_alibi_tensor(torch.ones(BATCH, LENGTH), heads, torch.float64)

    def run(x):
        return module(x, torch.zeros_like(x), alibi, additive_mask(SEEN))[0]

    weights = linears(module, {"out": "dense"})
    fused = linears(module, {"fused": "query_key_value"})
    # Its projection gives each head's query, key and value one after the other.
    for place, name in enumerate(("query", "key", "value")):
        for part in ("kernel", "bias"):
            whole = fused[f"layer.fused.{part}"]
            split = whole.reshape(*whole.shape[:-1], heads, 3, HEAD_DIM)[..., place, :]
            weights[f"layer.{name}.{part}"] = split.reshape(*whole.shape[:-1], width)
    kept = _recorded(run, 65, (BATCH, LENGTH, width), weights)
    q, k, v = (_heads(kept, name) for name in ("query", "key", "value"))
    distance = np.abs(np.arange(LENGTH)[None, :] - np.arange(LENGTH)[:, None])
    slopes = np.array([2.0**-4, 2.0**-8, 2.0**-2])
    e = scaled(q, k) - slopes[:, None, None] * distance
    compare("causal", kept["causal_out"], _out(kept, weigh(softmax(e, SEEN), v)))
    return kept


def qk_norm_rms_transformers() -> Arrays:
    """Rows 4 and 14: `qwen3_next`, RMS-normed queries and keys, a gate, no positions, causal.

    Its norms multiply by 1 + weight: `query_norm.gain` and `key_norm.gain` hold the sum.
    """
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    eps = 1e-6
    options = {"hidden_size": DIM, "num_key_value_heads": 2, "rms_norm_eps": eps}
    config = config_for(qwen.Qwen3NextConfig, HEADS, HEAD_DIM, **options)
    module = drawn(qwen.Qwen3NextAttention(config, layer_idx=0), 66)

    def run(x):
        return module(x, bare_rotation(x, HEAD_DIM), additive_mask(SEEN))[0]

    weights = linears(module, {**PROJECTIONS})
    # Its query projection gives each head's query and gate one after the other.
    both = weights["layer.query.kernel"].reshape(DIM, HEADS, 2, HEAD_DIM)
    weights["layer.query.kernel"] = both[:, :, 0].reshape(DIM, -1)
    weights["layer.gate.kernel"] = both[:, :, 1].reshape(DIM, -1)
    for name, norm in {"query_norm": module.q_norm, "key_norm": module.k_norm}.items():
        weights[f"layer.{name}.gain"] = (1 + norm.weight.detach().numpy()).astype(np.float32)
    kept = _recorded(run, 67, X, weights)
    q, k, v, gate = (_heads(kept, name) for name in ("query", "key", "value", "gate"))
    q, k = (
        rms_norm(x, eps) * weights[f"layer.{name}.gain"]
        for x, name in ((q, "query_norm"), (k, "key_norm"))
    )
    heads = weigh(softmax(scaled(q, k), SEEN), v) / (1 + np.exp(-gate))
    compare("causal", kept["causal_out"], _out(kept, heads), 1e-5)
    return kept


def differential_layer_transformers() -> Arrays:
    """Row 13: the layer of `diffllama`, number 2 of its stack, causal, without positions.

    Heads are reordered to our pairs. Its norm has no gain: the stored one is all ones.
    """
    from transformers.models.diffllama import modeling_diffllama as diffllama

    options = {"hidden_size": DIM, "rms_norm_eps": 1e-5}
    config = config_for(diffllama.DiffLlamaConfig, HEADS, HEAD_DIM, **options)
    module = drawn(diffllama.DiffLlamaAttention(config, layer_idx=2), 68)

    def run(x):
        return module(x, bare_rotation(x, HEAD_DIM), additive_mask(SEEN))[0]

    weights = linears(module, PROJECTIONS)
    for name in ("query", "key", "value"):
        theirs = weights[f"layer.{name}.kernel"].reshape(DIM, 2, HEADS // 2, HEAD_DIM)
        weights[f"layer.{name}.kernel"] = theirs.swapaxes(1, 2).reshape(DIM, -1)
    for name in ("q1", "k1", "q2", "k2"):
        vector = getattr(module, f"lambda_{name}").detach().numpy()
        weights[f"layer.lambda_{name}"] = vector.astype(np.float32)
    weights["layer.norm.gain"] = np.ones(2 * HEAD_DIM, np.float32)
    kept = _recorded(run, 69, X, weights)
    first, second = (
        math.exp(weights[f"layer.lambda_q{i}"] @ weights[f"layer.lambda_k{i}"]) for i in (1, 2)
    )
    initial = 0.8 - 0.6 * math.exp(-0.3 * 2)
    kept["lam"] = np.full(HEADS // 2, first - second + initial)
    q, k, v = (_heads(kept, name) for name in ("query", "key", "value"))
    maps = softmax(scaled(q, k), SEEN)
    maps = maps[:, 0::2] - kept["lam"][:, None, None] * maps[:, 1::2]
    joined = v.reshape(BATCH, LENGTH, HEADS // 2, 2 * HEAD_DIM)
    pairs = np.einsum("bpts,bsph->btph", maps, joined)
    compare("causal", kept["causal_out"], _out(kept, (1 - initial) * rms_norm(pairs, 1e-5)), 1e-5)
    return kept


def mla_transformers() -> Arrays:
    """Row 11: `deepseek_v3`, causal, with queries through a latent; rope layout interleaved."""
    return _mla(query_rank=5)


def mla_full_queries_transformers() -> Arrays:
    """Row 11: `deepseek_v3`, causal, with queries straight from x."""
    return _mla(query_rank=None)


def _mla(query_rank: int | None) -> Arrays:
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek

    heads, rank, bare, rope, value, eps = 3, 4, 5, 6, 7, 1e-6
    config = deepseek.DeepseekV3Config(
        **{"hidden_size": DIM, "num_attention_heads": heads, "num_key_value_heads": heads},
        **{"q_lora_rank": query_rank, "kv_lora_rank": rank, "qk_nope_head_dim": bare},
        **{"qk_rope_head_dim": rope, "v_head_dim": value, "attn_implementation": "eager"},
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    module = drawn(deepseek.DeepseekV3Attention(config, layer_idx=0), 70)
    for norm in (module.kv_a_layernorm, *([] if query_rank is None else [module.q_a_layernorm])):
        norm.weight.data += 1
    embedding = deepseek.DeepseekV3RotaryEmbedding(config)

    def run(x):
        return module(x, embedding(x, _places()), additive_mask(SEEN))[0]

    kept = _recorded(run, 71, X, _mla_weights(module, heads, rank, bare))
    x = kept["x"].astype(np.float64)
    layer = {name: kept[f"layer.{name}"].astype(np.float64) for name in _names(kept)}
    latent = rms_norm(x @ layer["latent.kernel"], eps) * layer["latent_norm.gain"]
    if query_rank is not None:
        x_query = rms_norm(x @ layer["query_latent.kernel"], eps) * layer["query_latent_norm.gain"]
    else:
        x_query = x
    shape = (BATCH, LENGTH, heads, -1)
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(rope // 2) / (rope // 2))
    q = (x_query @ layer["query.kernel"]).reshape(shape)
    q_turned = rotate(q[..., bare:], angles, True)
    k_turned = rotate((x @ layer["rope_key.kernel"])[:, :, None], angles, True)
    q = np.concatenate([q[..., :bare], q_turned], axis=-1)
    k = (latent @ layer["key.kernel"]).reshape(shape)
    k = np.concatenate([k, heads_like(k_turned, heads)], axis=-1)
    v = (latent @ layer["value.kernel"]).reshape(shape)
    compare("causal", kept["causal_out"], _out(kept, weigh(softmax(scaled(q, k), SEEN), v)), 1e-5)
    sizes = (bare, rope, rank, value, query_rank or 0)
    return {**kept, "bare_rope_rank_value_query_rank": np.array(sizes, np.int32)}


def _mla_weights(module, heads: int, rank: int, bare: int) -> Arrays:
    """Names the projections by what they give; a query head is its bare part, then its rope's."""
    weights = linears(module, {"out": "o_proj"})
    latent = linears(module, {"": "kv_a_proj_with_mqa"})["layer..kernel"]
    weights["layer.latent.kernel"] = latent[:, :rank]
    weights["layer.rope_key.kernel"] = latent[:, rank:]
    weights["layer.latent_norm.gain"] = _gain(module.kv_a_layernorm)
    up = linears(module, {"": "kv_b_proj"})["layer..kernel"].reshape(rank, heads, -1)
    weights["layer.key.kernel"] = up[..., :bare].reshape(rank, -1)
    weights["layer.value.kernel"] = up[..., bare:].reshape(rank, -1)
    if module.q_proj is not None:
        return weights | linears(module, {"query": "q_proj"})
    weights["layer.query_latent_norm.gain"] = _gain(module.q_a_layernorm)
    return weights | linears(module, {"query_latent": "q_a_proj", "query": "q_b_proj"})


def _gain(norm) -> np.ndarray:
    return norm.weight.detach().numpy().astype(np.float32)


def _recorded(run, seed: int, shape: tuple[int, ...], weights: Arrays) -> Arrays:
    given = draw(seed, x=shape, cotangent=shape)
    return {**given, **weights, **record("causal", run, given, "x"), "library": library(*VERSIONS)}


def _names(kept: Arrays) -> list[str]:
    return [name.removeprefix("layer.") for name in kept if name.startswith("layer.")]


def _places():
    import torch

    return torch.arange(LENGTH)[None]


def _affine(kept: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    y = x @ kept[f"layer.{name}.kernel"].astype(np.float64)
    return y + kept.get(f"layer.{name}.bias", np.zeros(1)).astype(np.float64)


def _heads(kept: Arrays, name: str) -> np.ndarray:
    y = _affine(kept, name, kept["x"].astype(np.float64))
    return y.reshape(*y.shape[:2], -1, HEAD_DIM)


def _out(kept: Arrays, heads: np.ndarray) -> np.ndarray:
    return _affine(kept, "out", heads.reshape(*heads.shape[:2], -1))


WITNESSES = {
    "rope_llama_transformers": rope_llama_transformers,
    "rope_gptj_transformers": rope_gptj_transformers,
    "alibi_bloom_transformers": alibi_bloom_transformers,
    "qk_norm_rms_transformers": qk_norm_rms_transformers,
    "differential_layer_transformers": differential_layer_transformers,
    "mla_transformers": mla_transformers,
    "mla_full_queries_transformers": mla_full_queries_transformers,
}
