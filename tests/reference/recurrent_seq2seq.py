"""A recurrent encoder-decoder in float64, one sentence pair and one token at a time.

arXiv 1409.0473 ("bahdanau") and 1508.04025 ("luong"), with additive attention or none.
"""

from __future__ import annotations

import numpy as np
from reference.rnn import gru, lstm, one_way

CELLS = {"gru": (gru, 1), "lstm": (lstm, 2)}


def affine(p, name, x):
    return x @ p[f"{name}.kernel"] + p[f"{name}.bias"]


def encode(p, source, *, num_layers, cell):
    """Returns the states [s d] of a source of ids."""
    x = p["source_embed.embedding"][source] * np.sqrt(p["source_embed.embedding"].shape[1])
    ones = np.ones(len(source), int)
    for layer in range(num_layers):
        name = f"encoder.cells.{layer}"
        both = p[f"{name}.kernel"]
        kernels = np.split(p[f"{name}.input.kernel"], 2, axis=1)
        biases = np.split(p[f"{name}.input.bias"], 2)
        there = one_way(x, ones, ones > 0, kernels[0], biases[0], both[0], cell)
        back = one_way(x[::-1], ones, ones > 0, kernels[1], biases[1], both[1], cell)[::-1]
        x = np.concatenate([there, back], axis=1)
    return x


def read(p, query, states, num_heads):
    """Returns the context [d] that additive attention reads, and its weights [n s]."""
    name = "decoder.attention"
    q = affine(p, f"{name}.query", query).reshape(num_heads, -1)
    k, v = (
        affine(p, f"{name}.{part}", states).reshape(len(states), num_heads, -1)
        for part in ("key", "value")
    )
    heads, weights = [], []
    for n in range(num_heads):
        scores = np.tanh(q[n] + k[:, n]) @ p[f"{name}.own.score_vector"][n]
        powers = np.exp(scores - scores.max())
        weights.append(powers / powers.sum())
        heads.append(weights[-1] @ v[:, n])
    return affine(p, f"{name}.out", np.concatenate(heads)), np.array(weights)


def logits(p, source, inputs, *, num_layers, cell, style, num_heads):
    """Returns the logits [t v] of the tokens that follow `inputs`, and the alignments [n t s].

    `num_heads` = 0: no attention.
    """
    update, num_states = CELLS[cell]
    states = encode(p, source, num_layers=num_layers, cell=cell)
    size = states.shape[1]
    ends = np.concatenate([states[-1, : size // 2], states[0, size // 2 :]])
    parts = np.split(np.tanh(affine(p, "decoder.initial", ends)), num_layers * num_states)
    cells = [tuple(parts[i * num_states : (i + 1) * num_states]) for i in range(num_layers)]
    table = p["target_embed.embedding"]
    attentional, outputs, alignments = np.zeros(size), [], []

    def look(query):
        if not num_heads:
            return affine(p, "decoder.fixed", ends)
        context, weights = read(p, query, states, num_heads)
        alignments.append(weights)
        return context

    for token in inputs:
        y = table[token] * np.sqrt(size)
        context = look(cells[-1][0]) if style == "bahdanau" else None
        x = np.concatenate([y, attentional if context is None else context])
        for layer in range(num_layers):
            name = f"decoder.cells.{layer}"
            given = affine(p, f"{name}.input", x)
            cells[layer] = update(cells[layer], given, p[f"{name}.kernel"][0])
            x = cells[layer][0]
        if context is None:
            context = look(x)
            attentional = np.tanh(affine(p, "decoder.out", np.concatenate([context, x])))
            outputs.append(attentional)
        else:
            pairs = affine(p, "decoder.out", np.concatenate([x, context, y]))
            outputs.append(pairs.reshape(-1, 2).max(axis=1))
    weights = np.array(alignments).swapaxes(0, 1) if num_heads else None
    return np.array(outputs) @ p.get("output.embedding", table).T, weights
