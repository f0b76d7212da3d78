"""Attention functions of `transformers`, in float64, though most of its softmaxes are float32."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np

from witnesses.common import (
    BATCH,
    HEAD_DIM,
    HEADS,
    KEY,
    KEYS,
    QUERIES,
    QUERY,
    SHARED_KEY,
    Arrays,
    as64,
    causal,
    compare,
    draw,
    draw_mask,
    library,
    record,
    scaled,
    softmax,
    weigh,
)
from witnesses.transformers_modules import (
    additive_mask,
    bare_rotation,
    config_for,
    t5_attention,
    without_projections,
)

VERSIONS = ("transformers", "torch")
SOFTCAP = 1.5
LENGTH = 7
SELF = (BATCH, LENGTH, HEADS, HEAD_DIM)


def sink_transformers() -> Arrays:
    """Row 6: the eager attention of `gpt_oss`."""
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

    given = draw(40, q=QUERY, k=SHARED_KEY, v=SHARED_KEY, cotangent=QUERY, sink=(HEADS,))
    given["mask"] = draw_mask(41, (BATCH, HEADS, QUERIES, KEYS))
    kept = dict(given)
    q, k, v, sink = as64(given, "q k v sink")
    for case, visible in _masks(given).items():

        def run(q, k, v, sink, visible=visible):
            module = SimpleNamespace(sinks=sink, num_key_value_groups=2, training=False)
            return _eager(eager_attention_forward, module, q, k, v, visible)

        kept |= record(case, run, given, "q k v sink")
        expected = weigh(softmax(scaled(q, k), visible, sink), v)
        compare(case, kept[f"{case}_out"], expected)
    return {**kept, "library": library(*VERSIONS)}


def softcap_transformers() -> Arrays:
    """Row 15: the eager attention of `gemma2`; the cap bites at the scores of these inputs."""
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

    given = draw(42, q=QUERY, k=SHARED_KEY, v=SHARED_KEY, cotangent=QUERY)
    given["mask"] = draw_mask(43, (BATCH, HEADS, QUERIES, KEYS))
    kept = {**given, "softcap": np.float32(SOFTCAP)}
    q, k, v = as64(given, "q k v")
    for case, visible in _masks(given).items():

        def run(q, k, v, visible=visible):
            module = SimpleNamespace(num_key_value_groups=2, training=False)
            return _eager(eager_attention_forward, module, q, k, v, visible, softcap=SOFTCAP)

        kept |= record(case, run, given, "q k v")
        e = SOFTCAP * np.tanh(scaled(q, k) / SOFTCAP)
        compare(case, kept[f"{case}_out"], weigh(softmax(e, visible), v))
    return {**kept, "library": library(*VERSIONS)}


def gated_transformers() -> Arrays:
    """Row 14: `qwen3_next`, which takes the gate before its sigmoid; ours is the value after."""
    import torch
    from transformers.models.qwen3_next import modeling_qwen3_next as qwen

    given = draw(44, q=SELF, k=SELF, v=SELF, cotangent=SELF)
    logits = draw(45, gate=SELF)["gate"].astype(np.float64)
    given["gate"] = (1 / (1 + np.exp(-logits))).astype(np.float32)
    module = qwen.Qwen3NextAttention(config_for(qwen.Qwen3NextConfig, HEADS, HEAD_DIM), layer_idx=0)
    without_projections(module, ("q_proj", "k_proj", "v_proj"), "o_proj", (2, 1, 1))
    module.q_norm = module.k_norm = torch.nn.Identity()

    def run(q, k, v, gate):
        # Its query projection gives each head's query and gate one after the other.
        together = torch.cat([q, torch.logit(gate)], dim=-1)
        x = torch.cat([together.flatten(2), k.flatten(2), v.flatten(2)], dim=-1)
        out, _ = module(x, bare_rotation(x, HEAD_DIM), additive_mask(causal(LENGTH, LENGTH)))
        return out.unflatten(-1, (HEADS, HEAD_DIM))

    kept = given | record("causal", run, given, "q k v gate")
    q, k, v, gate = as64(given, "q k v gate")
    expected = gate * weigh(softmax(scaled(q, k), causal(LENGTH, LENGTH)), v)
    compare("causal", kept["causal_out"], expected)
    return {**kept, "library": library(*VERSIONS)}


def differential_transformers() -> Arrays:
    """Row 13: `diffllama` before its norm. It pairs heads i and i + n/2, ours are 2i and 2i + 1."""
    import torch
    from transformers.models.diffllama import modeling_diffllama as diffllama

    given = draw(46, q=SELF, k=SELF, v=SELF, cotangent=SELF)
    given["lam"] = np.array([0.7, 0.4], np.float32)
    config = config_for(diffllama.DiffLlamaConfig, HEADS, HEAD_DIM)
    module = diffllama.DiffLlamaAttention(config, layer_idx=1)
    without_projections(module, ("q_proj", "k_proj", "v_proj"), "o_proj", (1, 1, 1))
    seen = {}
    module.groupnorm.register_forward_hook(lambda _, args, __: seen.update(before=args[0]))

    def run(q, k, v, lam):
        # λ = exp(λq1·λk1) − exp(λq2·λk2) + λ₀: λq1 is chosen to give ours. It is a vector there,
        # one λ for all pairs; one vector for each pair goes the same way.
        for name in ("q1", "k1", "q2", "k2"):
            delattr(module, f"lambda_{name}")
        first = torch.log(lam - module.lambda_init + 1)
        one = torch.eye(HEAD_DIM, dtype=torch.float64)[0]
        module.lambda_q1, module.lambda_k1 = first[:, None, None] * one, one
        module.lambda_q2 = module.lambda_k2 = 0 * one
        x = torch.cat([x[:, :, _theirs(HEADS)].flatten(2) for x in (q, k, v)], dim=-1)
        module(x, bare_rotation(x, HEAD_DIM), additive_mask(causal(LENGTH, LENGTH)))
        # [b t n/2 2h]: each pair's halves are our heads 2i and 2i + 1.
        return seen["before"].reshape(SELF)

    kept = given | record("causal", run, given, "q k v lam")
    q, k, v, lam = as64(given, "q k v lam")
    weights = softmax(scaled(q, k), causal(LENGTH, LENGTH))
    difference = weights[:, 0::2] - lam[:, None, None] * weights[:, 1::2]
    joined = v.reshape(BATCH, LENGTH, HEADS // 2, 2 * HEAD_DIM)
    expected = np.einsum("bpts,bsph->btph", difference, joined).reshape(SELF)
    compare("causal", kept["causal_out"], expected)
    return {**kept, "library": library(*VERSIONS)}


def t5_transformers() -> Arrays:
    """Row 16: `T5Attention` of an encoder and of a decoder; its scores have no 1/√h."""
    import torch

    buckets = 8
    given = draw(47, q=SELF, k=SELF, v=SELF, cotangent=SELF, bias_table=(buckets, HEADS))
    kept = dict(given)
    q, k, v, table = as64(given, "q k v bias_table")
    for case, is_decoder in {"full": False, "causal": True}.items():
        module = t5_attention(HEADS, HEAD_DIM, buckets, is_decoder=is_decoder)
        without_projections(module, ("q", "k", "v"), "o", (1, 1, 1))
        visible = causal(LENGTH, LENGTH) if is_decoder else np.ones((LENGTH, LENGTH), bool)

        def run(q, k, v, bias_table, module=module, visible=visible):
            del module.relative_attention_bias
            module.relative_attention_bias = lambda index: bias_table[index]
            module.relative_attention_bias.weight = bias_table
            x = torch.cat([q.flatten(2), k.flatten(2), v.flatten(2)], dim=-1)
            return module(x, mask=additive_mask(visible))[0].unflatten(-1, (HEADS, HEAD_DIM))

        kept |= record(case, run, given, "q k v bias_table")
        distance = np.arange(LENGTH)[None, :] - np.arange(LENGTH)[:, None]
        bias = table[t5_bucket(distance, not is_decoder, buckets, 128)].transpose(2, 0, 1)
        e = math.sqrt(HEAD_DIM) * scaled(q, k) + bias
        compare(case, kept[f"{case}_out"], weigh(softmax(e, visible), v))
    return {**kept, "library": library(*VERSIONS)}


def t5_bucket(
    distance: np.ndarray, bidirectional: bool, buckets: int, max_distance: int
) -> np.ndarray:
    """Returns the bucket of a distance = key − query; half the buckets hold one distance each."""
    first = np.zeros_like(distance)
    if bidirectional:
        buckets //= 2
        first = buckets * (distance > 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = buckets // 2
    # Of integers, so that a border belongs to one side: no logarithm is exact there.
    ratio = np.log(np.maximum(distance, exact) / exact) / math.log(max_distance / exact)
    far = exact + np.floor(ratio * (buckets - exact) + 1e-9).astype(int)
    return first + np.where(distance < exact, distance, np.minimum(far, buckets - 1))


def shaw_transformers() -> Arrays:
    """Row 16, the key term: `relative_key` of Wav2Vec2-BERT; its values have no such term."""
    from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as bert

    clip = 2
    given = draw(48, q=QUERY, k=KEY, v=KEY, cotangent=QUERY, key_table=(2 * clip + 1, HEAD_DIM))
    given["value_table"] = np.zeros((2 * clip + 1, HEAD_DIM), np.float32)
    given["mask"] = draw_mask(49, (BATCH, HEADS, QUERIES, KEYS))
    kept = dict(given)
    q, k, v, table = as64(given, "q k v key_table")
    distance = np.arange(KEYS)[None, :] - np.arange(QUERIES)[:, None]
    rows = table[np.clip(distance, -clip, clip) + clip]
    e = scaled(q, k) + np.einsum("btnh,tsh->bnts", q, rows) / math.sqrt(HEAD_DIM)
    for case, visible in _masks(given).items():

        def run(q, k, v, key_table, visible=visible):
            module = SimpleNamespace(
                left_max_position_embeddings=clip,
                right_max_position_embeddings=clip,
                distance_embedding=lambda index: key_table[index],
                scaling=HEAD_DIM**-0.5,
                training=False,
            )
            q_first, k_first = q.transpose(1, 2), k.transpose(1, 2)
            _, bias = bert._apply_relative_key_position_encoding(module, q_first, k_first)
            forward = bert.eager_attention_forward
            return _eager(forward, module, q, k, v, visible, position_bias=bias)

        kept |= record(case, run, given, "q k v key_table")
        compare(case, kept[f"{case}_out"], weigh(softmax(e, visible), v))
    return {**kept, "library": library(*VERSIONS)}


def _masks(given: Arrays) -> Arrays:
    mask = given["mask"]
    return {"full": np.ones_like(mask), "masked": mask, "causal": causal(*mask.shape[2:])}


def _theirs(heads: int) -> list[int]:
    """Returns our head of each of diffllama's: 0, 2, … and then 1, 3, …"""
    return [*range(0, heads, 2), *range(1, heads, 2)]


def _eager(forward, module, q, k, v, visible: np.ndarray, **options):
    heads_first = [x.transpose(1, 2) for x in (q, k, v)]
    mask = additive_mask(visible)
    return forward(module, *heads_first, mask, scaling=HEAD_DIM**-0.5, dropout=0.0, **options)[0]


WITNESSES = {
    "sink_transformers": sink_transformers,
    "softcap_transformers": softcap_transformers,
    "gated_transformers": gated_transformers,
    "differential_transformers": differential_transformers,
    "t5_transformers": t5_transformers,
    "shaw_transformers": shaw_transformers,
}
