"""Longformer and BigBird of `transformers`, in float64, the softmaxes of Longformer in float32."""

from __future__ import annotations

import numpy as np

from witnesses.common import (
    Arrays,
    as64,
    compare,
    draw,
    library,
    record,
    scaled,
    softmax,
    weigh,
)
from witnesses.from_transformers import VERSIONS
from witnesses.transformers_modules import drawn, linears, without_projections

BATCH, HEADS, HEAD_DIM = 2, 2, 3
# Longformer: its length is a multiple of its window, twice ours.
WINDOW, LENGTH = 2, 12
LOCAL, GLOBAL = ("query", "key", "value"), ("query_global", "key_global", "value_global")
BLOCK, BLOCKS, RANDOM_BLOCKS = 2, 12, 3


def longformer_transformers() -> Arrays:
    """Row 20, bidirectional. It ends before the output projection: `out` is the identity here.

    The first token, some tokens, and the first token of rows with padding are global.
    """
    import torch
    from transformers.models.longformer import modeling_longformer as longformer

    width = HEADS * HEAD_DIM
    config = longformer.LongformerConfig(
        hidden_size=width,
        num_attention_heads=HEADS,
        attention_window=[2 * WINDOW],
        attention_probs_dropout_prob=0.0,
    )
    module = drawn(longformer.LongformerSelfAttention(config, layer_id=0), 80)
    given = draw(81, x=(BATCH, LENGTH, width), cotangent=(BATCH, LENGTH, width))
    first = np.arange(LENGTH)[None, :] == np.zeros((BATCH, 1), int)
    some = np.zeros((BATCH, LENGTH), bool)
    # As many in each row: it fills up shorter lists, and gives NaN gradients in float64 for those.
    some[0, [3, 9]] = some[1, [6, 7]] = True
    real = np.arange(LENGTH)[None, :] < np.array([[LENGTH], [LENGTH - 3]])
    cases = {
        "first": (first, np.ones_like(real)),
        "some": (some, np.ones_like(real)),
        "padded": (first, real),
    }
    kept = given | linears(module, {name: name for name in (*LOCAL, *GLOBAL)})
    kept["layer.out.kernel"] = np.eye(width, dtype=np.float32)
    kept |= {"some_global_mask": some, "padded_segment_ids": real.astype(np.int32)}
    kept["window"] = np.array([WINDOW, WINDOW], np.int32)
    for case, (is_global, visible) in cases.items():

        def run(x, is_global=is_global, visible=visible):
            # 0 local, above 0 global, below 0 padding.
            code = torch.from_numpy(np.where(visible, np.where(is_global, 1.0, 0.0), -1.0) * 1e4)
            return module(
                x,
                attention_mask=code,
                is_index_masked=code < 0,
                is_index_global_attn=code > 0,
                is_global_attn=True,
            )[0]

        kept |= record(case, run, given, "x")
        compare(case, kept[f"{case}_out"], _longformer(kept, is_global, visible))
    return {**kept, "library": library(*VERSIONS)}


def _longformer(kept: Arrays, is_global: np.ndarray, real: np.ndarray) -> np.ndarray:
    x = kept["x"].astype(np.float64)

    def heads(name: str) -> np.ndarray:
        weight, bias = (kept[f"layer.{name}.{part}"].astype(np.float64) for part in _PARTS)
        return (x @ weight + bias).reshape(BATCH, LENGTH, HEADS, HEAD_DIM)

    distance = np.arange(LENGTH)[None, :] - np.arange(LENGTH)[:, None]
    seen = (np.abs(distance) <= WINDOW)[None] | is_global[:, None, :]
    q, k, v = map(heads, LOCAL)
    local = weigh(softmax(scaled(q, k), (seen & real[:, None, :])[:, None]), v)
    q, k, v = map(heads, GLOBAL)
    over_all = weigh(softmax(scaled(q, k), real[:, None, None, :]), v)
    rows = np.where(is_global[..., None, None], over_all, local) * real[..., None, None]
    return rows.reshape(x.shape)


_PARTS = ("kernel", "bias")


def bigbird_transformers() -> Arrays:
    """Row 21, bidirectional: without random blocks, and with those that it drew, which are stored.

    It is in `train()`, since it draws nothing otherwise. `random_choice` [n I r] holds, for each
    head and each block I but the first and the last, the blocks that it attends besides;
    `CASE_blocks` [n I J] is True where block I sees block J.
    """
    shape = (1, BLOCK * BLOCKS, HEADS, HEAD_DIM)
    given = draw(82, q=shape, k=shape, v=shape, cotangent=shape)
    kept = dict(given)
    q, k, v = as64(given, "q k v")
    module, choices = _bigbird()
    for case in ("fixed", "random"):
        kept |= record(case, _bigbird_run(module, random=case == "random"), given, "q k v")
        chosen = np.stack(choices[-1])
        blocks = _bigbird_blocks(chosen if case == "random" else chosen[..., :0])
        kept[f"{case}_blocks"] = blocks
        visible = np.kron(blocks, np.ones((BLOCK, BLOCK), bool))
        compare(case, kept[f"{case}_out"], weigh(softmax(scaled(q, k), visible), v))
    kept |= {"random_choice": chosen.astype(np.int32), "block_size": np.int32(BLOCK)}
    return {**kept, "library": library(*VERSIONS)}


def _bigbird():
    """Returns the module, and the list that its random choices are put in."""
    from transformers.models.big_bird import modeling_big_bird as big_bird

    config = big_bird.BigBirdConfig(
        hidden_size=HEADS * HEAD_DIM,
        num_attention_heads=HEADS,
        num_random_blocks=RANDOM_BLOCKS,
        block_size=BLOCK,
        attention_probs_dropout_prob=0.0,
    )
    module = big_bird.BigBirdBlockSparseAttention(config, seed=83)
    module.query = module.key = module.value = None
    without_projections(module, LOCAL, "unused", (1, 1, 1))
    module.train()
    choices = []
    draw_blocks = module._bigbird_block_rand_mask_with_head

    def draw_and_keep(**sizes):
        choices.append(draw_blocks(**sizes))
        return choices[-1]

    module._bigbird_block_rand_mask_with_head = draw_and_keep
    return module, choices


def _bigbird_run(module, *, random: bool):
    import torch
    from transformers.models.big_bird.modeling_big_bird import BigBirdModel

    everything = torch.ones(1, BLOCK * BLOCKS, dtype=torch.float64)
    masks = BigBirdModel.create_masks_for_block_sparse_attn(everything, BLOCK)
    blocked, band, rows, columns = masks

    def run(q, k, v):
        x = torch.cat([q.flatten(2), k.flatten(2), v.flatten(2)], dim=-1)
        # It cannot have no random blocks; a mask of padding hides those that it drew.
        readable = blocked if random else torch.zeros_like(blocked)
        out, _ = module(x, band, rows, columns, blocked, readable)
        return out.unflatten(-1, (HEADS, HEAD_DIM))

    return run


def _bigbird_blocks(chosen: np.ndarray) -> np.ndarray:
    """Returns which block sees which [n I J]."""
    index = np.arange(BLOCKS)
    ends = (index == 0) | (index == BLOCKS - 1)
    near = np.abs(index[:, None] - index[None, :]) <= 1
    blocks = np.broadcast_to(near | ends[:, None] | ends[None, :], (HEADS, BLOCKS, BLOCKS)).copy()
    for head, block in np.ndindex(HEADS, BLOCKS - 2):
        blocks[head, block + 1, chosen[head, block]] = True
    return blocks


WITNESSES = {
    "longformer_transformers": longformer_transformers,
    "bigbird_transformers": bigbird_transformers,
}
