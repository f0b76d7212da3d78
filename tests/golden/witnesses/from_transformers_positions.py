"""Position schemes of `transformers`: buckets, slopes and rotations."""

from __future__ import annotations

import math

import numpy as np

from witnesses.common import Arrays, as64, compare, draw, library, rotate
from witnesses.from_transformers import VERSIONS, t5_bucket
from witnesses.transformers_modules import config_for

# (buckets, max_distance): T5's own, small ones, and one whose distances run past the last bucket.
BUCKETS = ((32, 128), (16, 64), (8, 20), (12, 50), (6, 200))
HEAD_DIM = 16
POSITIONS = (0, 1, 2, 5, 17, 40, 63)
# Case → rope_parameters of transformers, and the length of the text for the dynamic one.
SCALINGS = {
    "half": ({"rope_type": "default"}, None),
    "base": ({"rope_type": "default", "rope_theta": 500.0}, None),
    "linear": ({"rope_type": "linear", "factor": 4.0}, None),
    "ntk": ({"rope_type": "dynamic", "factor": 1.0}, 4 * 64),
    "yarn": (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
        None,
    ),
    "yarn_short": (
        {
            **{"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64},
            **{"beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.25},
        },
        None,
    ),
}


def t5_buckets_transformers() -> Arrays:
    """Row 16: the bucket of each distance = key − query, [case, distance]."""
    import torch
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = np.arange(-250, 251)
    settings, buckets = [], []
    for count, farthest in BUCKETS:
        for bidirectional in (False, True):
            settings.append((bidirectional, count, farthest))
            options = {"num_buckets": count, "max_distance": farthest}
            theirs = T5Attention._relative_position_bucket(
                torch.from_numpy(distance), bidirectional=bidirectional, **options
            ).numpy()
            stated = t5_bucket(distance, bidirectional, count, farthest)
            # Its logarithm is float32, so that a border between buckets might fall to either side.
            compare(f"{settings[-1]}", theirs, stated)
            buckets.append(theirs)
    return {
        "distance": distance.astype(np.int32),
        "settings": np.array(settings, np.int32),
        "buckets": np.array(buckets, np.int8),
        "library": library(*VERSIONS),
    }


def alibi_slopes_transformers() -> Arrays:
    """Row 17: the slopes of 1 to 20 heads, from the bias of a key one position on."""
    import torch
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    kept = {}
    for heads in range(1, 21):
        bias = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)
        kept[f"slopes_{heads}"] = bias[:, 0, 1].numpy()
        power = 2 ** int(math.log2(heads))
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        slopes += [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)]
        compare(f"{heads} heads", kept[f"slopes_{heads}"], np.array(slopes[:heads]), 1e-7)
    return {**kept, "library": library(*VERSIONS)}


def rope_transformers() -> Arrays:
    """Row 18: `llama` pairs features i and i + h/2, `gptj` 2i and 2i + 1, and turns a part."""
    import torch
    from transformers.models.gptj import modeling_gptj as gptj
    from transformers.models.llama import modeling_llama as llama

    given = draw(50, x=(1, len(POSITIONS), 2, HEAD_DIM))
    given["positions"] = np.array([POSITIONS], np.int32)
    kept = dict(given)
    x = torch.from_numpy(given["x"]).double()
    places = torch.from_numpy(given["positions"]).long()
    for case, (parameters, length) in SCALINGS.items():
        config = config_for(
            llama.LlamaConfig,
            *(2, HEAD_DIM),
            max_position_embeddings=64,
            rope_parameters={"rope_theta": 10000.0, **parameters},
        )
        embedding = llama.LlamaRotaryEmbedding(config)
        if length is not None:  # dynamic: longer texts change the frequencies
            embedding(x, torch.tensor([[length - 1]]))
        # Straight to the angles: the module would reset the dynamic ones for these positions.
        angles = places[..., None].float() * embedding.inv_freq.float()
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = (f(angles) * embedding.attention_scaling for f in (torch.cos, torch.sin))
        turned, _ = llama.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=2)
        kept[f"{case}_out"] = turned.numpy().astype(np.float32)
        kept[f"{case}_frequencies"] = embedding.inv_freq.numpy()
        kept[f"{case}_attention_factor"] = np.float64(embedding.attention_scaling)
        _compare(case, kept, False, *_frequencies(case))
    for case, rotary_dim in {"interleaved": HEAD_DIM, "interleaved_part": 6}.items():
        table = gptj.create_sinusoidal_positions(64, rotary_dim)[places]
        sin, cos = torch.split(table, rotary_dim // 2, dim=-1)
        turned = gptj.apply_rotary_pos_emb(x[..., :rotary_dim], sin, cos)
        kept[f"{case}_out"] = torch.cat([turned, x[..., rotary_dim:]], dim=-1).float().numpy()
        frequencies = 10000.0 ** (-np.arange(rotary_dim // 2) / (rotary_dim // 2))
        _compare(case, kept, True, frequencies, 1.0)
    return {**kept, "library": library(*VERSIONS)}


def _compare(case: str, kept: Arrays, interleaved: bool, frequencies, factor: float) -> None:
    (x,) = as64(kept, "x")
    angles = np.array(POSITIONS)[:, None] * frequencies[None, :]
    compare(case, kept[f"{case}_out"], factor * rotate(x, angles, interleaved), 2e-5)
    if f"{case}_frequencies" in kept:
        compare(f"{case} frequencies", kept[f"{case}_frequencies"] / frequencies, 1.0, 2e-6)


def _frequencies(case: str) -> tuple[np.ndarray, float]:
    """Returns the angles of a position, in radians, and what the rotated vectors grow by."""
    parameters, length = SCALINGS[case]
    base, pairs = parameters.get("rope_theta", 10000.0), HEAD_DIM // 2
    s = parameters.get("factor")
    if case == "ntk":  # s = the text's length over the trained one
        base *= (length / 64) ** (HEAD_DIM / (HEAD_DIM - 2))
    frequencies = base ** (-np.arange(pairs) / pairs)
    if case == "linear":
        return frequencies / s, 1.0
    if not case.startswith("yarn"):
        return frequencies, 1.0
    # A pair that turns `turns` times in the trained length.
    trained = parameters["original_max_position_embeddings"]

    def pair(turns: float) -> float:
        return pairs * math.log(trained / (2 * math.pi * turns)) / math.log(base)

    low = max(math.floor(pair(parameters.get("beta_fast", 32))), 0)
    high = min(math.ceil(pair(parameters.get("beta_slow", 1))), HEAD_DIM - 1)
    stretched = np.clip((np.arange(pairs) - low) / (high - low), 0, 1)
    factor = parameters.get("attention_factor", 0.1 * math.log(s) + 1)
    return frequencies * (1 - stretched + stretched / s), factor


WITNESSES = {
    "t5_buckets_transformers": t5_buckets_transformers,
    "alibi_slopes_transformers": alibi_slopes_transformers,
    "rope_transformers": rope_transformers,
}
