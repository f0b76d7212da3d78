"""Toy language models whose next token depends on everything before it, and slow plain searches."""

from __future__ import annotations

import itertools
import math

import jax.numpy as jnp
import numpy as np

# How close two scores may come before float32 might order them the other way.
CLOSE = 1e-4


def num_nodes(vocabulary: int, depth: int) -> int:
    """Prefixes of fewer than `depth` tokens."""
    return sum(vocabulary**i for i in range(depth))


def random_table(seed: int, *, rows: int, vocabulary: int, depth: int, scale: float = 2.0):
    """Logits [rows prefixes vocabulary], float32: a model of its own for each row.

    The last token is its EOS. What is read of a hypothesis that ended is NaN.
    """
    generator = np.random.default_rng(seed)
    shape = (rows, num_nodes(vocabulary, depth), vocabulary)
    table = (scale * generator.standard_normal(shape)).astype(np.float32)
    for length in range(1, depth):
        for prefix in itertools.product(range(vocabulary), repeat=length):
            if vocabulary - 1 in prefix:
                table[:, node_of(prefix, vocabulary)] = np.nan
    return table


def node_of(prefix, vocabulary: int) -> int:
    """Where a prefix stands in a table: the root, its children, their children."""
    node = 0
    for token in prefix:
        node = node * vocabulary + 1 + token
    return node


def make_step(table):
    """A step over a table. Prefixes that are too long have logits NaN."""
    table = jnp.asarray(table)
    vocabulary = table.shape[-1]

    def step(state, tokens):
        node = state["node"]
        node = jnp.where(node < 0, 0, node * vocabulary + 1 + tokens)
        node = jnp.minimum(node, table.shape[1])  # the index must not overflow
        logits = table.at[state["row"], node].get(mode="fill", fill_value=jnp.nan)
        return logits, {"node": node, "row": state["row"]}

    return step


def first_state(rows: int):
    return {"node": jnp.full(rows, -1, jnp.int32), "row": jnp.arange(rows, dtype=jnp.int32)}


def log_softmax(logits) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    peak = logits.max()
    return logits - peak - np.log(np.sum(np.exp(logits - peak)))


def log_probability(table, tokens) -> float:
    """Of a sequence, from one row's table [prefixes vocabulary]."""
    vocabulary = table.shape[-1]
    return sum(
        float(log_softmax(table[node_of(tokens[:i], vocabulary)])[token])
        for i, token in enumerate(tokens)
    )


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def brute_force(table, *, limit: int, alpha: float, eos: int, forbidden=()):
    """Every hypothesis of a row, the best first, as (score, tokens): ended ones before cut ones."""
    allowed = [t for t in range(table.shape[-1]) if t not in forbidden]
    inner = [t for t in allowed if t != eos]
    ended = [
        (*body, eos)
        for length in range(limit)
        for body in itertools.product(inner, repeat=length)
        if eos in allowed
    ]
    cut = list(itertools.product(inner, repeat=limit))

    def scored(hypotheses):
        pairs = [(log_probability(table, y) / penalty(len(y), alpha), y) for y in hypotheses]
        return sorted(pairs, key=lambda pair: -pair[0])

    return scored(ended) + scored(cut)


def slow_greedy(table, *, limit: int, eos: int, forbidden=()):
    """(score, tokens) of a row."""
    tokens, score = (), 0.0
    while len(tokens) < limit and eos not in tokens:
        found = log_softmax(table[node_of(tokens, table.shape[-1])])
        allowed = [t for t in range(len(found)) if t not in forbidden]
        best = max(allowed, key=lambda t: (found[t], -t))
        tokens, score = (*tokens, best), score + found[best]
    return score, tokens


def reading(table):
    """What is read of a row's table after a prefix; a function of the prefix is its own."""
    return table if callable(table) else lambda prefix: table[node_of(prefix, table.shape[-1])]


def slow_beam(table, *, limit: int, alpha: float, eos: int, beam_size: int, forbidden=()):
    """A beam search of shared width that never stops early.

    Args:
        table: of one row, or a function from a prefix to the logits after it.

    Returns:
        The hypotheses as (score, tokens), the best first, and the smallest distance between two
        scores that were compared and not equal.
    """
    live, ended, distances, logits_after = [(0.0, ())], [], [math.inf], reading(table)

    def compare(scores):
        scores = sorted(scores)
        gaps = [b - a for a, b in itertools.pairwise(scores) if b > a]
        distances.append(min(gaps, default=math.inf))

    for _ in range(limit):
        continued = []
        for score, tokens in live:
            found = log_softmax(logits_after(tokens))
            for token in range(len(found)):
                if token not in forbidden:
                    continued.append((score + found[token], (*tokens, token)))
        compare(score for score, _ in continued)
        # Sorting is stable: ties go to the better parent, then to the lower id.
        continued.sort(key=lambda pair: -pair[0])
        chosen = continued[: beam_size - len(ended)]
        live = [pair for pair in chosen if pair[1][-1] != eos]
        ended += [pair for pair in chosen if pair[1][-1] == eos]

    def ranked(pairs):
        pairs = [(score / penalty(len(tokens), alpha), tokens) for score, tokens in pairs]
        compare(score for score, _ in pairs)
        return sorted(pairs, key=lambda pair: (-pair[0], len(pair[1])))

    return ranked(ended) + ranked(live), min(distances)


def hypotheses(decoded, row: int):
    """The hypotheses of a row of a beam's result as [(score, tokens)], empty ones left out."""
    return [
        (float(score), tuple(int(t) for t in tokens[:length]))
        for tokens, length, score in zip(
            *(np.asarray(x)[row] for x in (decoded.tokens, decoded.lengths, decoded.scores)),
            strict=True,
        )
        if score > -np.inf
    ]
