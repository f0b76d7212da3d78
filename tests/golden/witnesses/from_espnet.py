"""Attention of ESPnet's recurrent recogniser, in float64; one module for each head.

A module takes one query and the weights before it. Its projections are made the identity, so that
it takes our q and k: one of the encoder's states is a key and its value side by side.
"""

from __future__ import annotations

import numpy as np

from witnesses.common import (
    BATCH,
    HEAD_DIM,
    HEADS,
    KEY,
    KEYS,
    QUERIES,
    QUERY,
    Arrays,
    as64,
    compare,
    draw,
    library,
    record,
    softmax,
    weigh,
)

REACH, FILTERS = 1, 3  # filters are 2 · REACH + 1 keys wide
LENGTHS = (KEYS, KEYS - 2)
OWN = "score_vector location_filters location_matrix"


def location_sensitive_espnet() -> Arrays:
    """Row 40. `AttLoc` is our `location_input=previous`, `AttCovLoc` our `cumulative`.

    Scores are multiplied by `scaling`, 1 here. Weights before the first query are uniform there, 0
    with us: it is given zeros, and `previous` in the cases that begin with `started`. What lies on
    hidden keys there would count, and does not with us: it is hidden. The bias after the score has
    no effect.
    """
    given = draw(120, q=QUERY, k=KEY, v=KEY, cotangent=QUERY)
    given |= draw(
        *(121,),
        score_vector=(HEADS, HEAD_DIM),
        location_filters=(HEADS, 2 * REACH + 1, FILTERS),
        location_matrix=(HEADS, FILTERS, HEAD_DIM),
    )
    given["mask"] = (np.arange(KEYS) < np.array(LENGTHS)[:, None])[:, None, None, :]
    before = softmax(draw(122, e=(BATCH, HEADS, KEYS))["e"], given["mask"][:, 0])
    given["previous"] = before.astype(np.float32)
    kept = dict(given)
    given["nowhere"] = np.zeros_like(given["previous"])
    for case, cumulative, masked in (
        ("full", False, False),
        ("cumulative", True, False),
        ("started", False, True),
        ("started_cumulative", True, True),
    ):
        lengths = LENGTHS if masked else (KEYS,) * BATCH
        first = "previous" if case.startswith("started") else "nowhere"

        def run(q, k, v, cumulative=cumulative, lengths=lengths, first=first, **own):
            start = own.pop(first) * _visible(lengths)
            return _attend(q, k, v, start, own, cumulative, lengths)

        kept |= record(case, run, given, f"q k v {OWN} {first}")
        kept.pop(f"{case}_grad_nowhere", None)
        visible = given["mask"][:, 0] if masked else np.array(True)
        compare(case, kept[f"{case}_out"], _formula(given, visible, first, cumulative))
    return {**kept, "library": library("espnet", "torch")}


def _attend(q, k, v, start, own: dict, cumulative: bool, lengths: tuple[int, ...]):
    import torch

    heads = []
    for n in range(HEADS):
        head = _Head(own, n, cumulative)
        states = torch.cat([k[:, :, n], v[:, :, n]], dim=-1)
        before, read = [start[:, n]] if cumulative else start[:, n], []
        for i in range(QUERIES):
            y, before = head(states, torch.tensor(lengths), q[:, i, n], before)
            read.append(y[:, HEAD_DIM:])
        heads.append(torch.stack(read, dim=1))
    return torch.stack(heads, dim=2)


def _visible(lengths: tuple[int, ...]):
    import torch

    return torch.arange(KEYS) < torch.tensor(lengths)[:, None, None]


class _Head:
    """One of the library's modules with one head's arrays in place of its weights."""

    def __init__(self, own: dict, n: int, cumulative: bool):
        import torch
        from espnet.nets.pytorch_backend.rnn.attentions import AttCovLoc, AttLoc

        kind = AttCovLoc if cumulative else AttLoc
        self.module = kind(2 * HEAD_DIM, HEAD_DIM, HEAD_DIM, FILTERS, REACH).double()
        identity = torch.eye(HEAD_DIM, dtype=torch.float64)
        nothing = torch.zeros(HEAD_DIM, dtype=torch.float64)
        self.weights = {
            "mlp_enc.weight": torch.cat([identity, torch.zeros_like(identity)], dim=1),
            "mlp_enc.bias": nothing,
            "mlp_dec.weight": identity,
            "mlp_att.weight": own["location_matrix"][n].T,
            "loc_conv.weight": own["location_filters"][n].T[:, None, None, :],
            "gvec.weight": own["score_vector"][n][None],
            "gvec.bias": nothing[:1] + 0.7,
        }

    def __call__(self, *arguments):
        import torch

        options = {"scaling": 1.0}
        return torch.func.functional_call(self.module, self.weights, arguments, options)


def _formula(given: Arrays, visible: np.ndarray, first: str, cumulative: bool) -> np.ndarray:
    q, k, v, u, filters, matrix, alignment = as64(given, f"q k v {OWN} {first}")
    weights = []
    for i in range(QUERIES):
        padded = np.pad(alignment, ((0, 0), (0, 0), (REACH, REACH)))
        near = np.stack([padded[..., o : o + KEYS] for o in range(2 * REACH + 1)], axis=-1)
        place = np.einsum("bnsw,nwr,nrh->bsnh", near, filters, matrix)
        e = np.einsum("nh,bsnh->bns", u, np.tanh(q[:, i, None] + k + place))
        now = softmax(e, visible)
        alignment = alignment + now if cumulative else now
        weights.append(now)
    return weigh(np.stack(weights, axis=2), v)


WITNESSES = {"location_sensitive_espnet": location_sensitive_espnet}
