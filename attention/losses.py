"""Sums over tokens: what a task returns, and the cross-entropy most of them use."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Sum(NamedTuple):
    """A sum and how many things it is over. Sums add up; they are divided once, at the end.

    Means of means are wrong wherever the parts differ in size (devices, micro-batches, batches).
    """

    total: Float[Array, ""]
    count: Float[Array, ""]


def token_cross_entropy(
    logits: Float[Array, "*b c"],
    labels: Int[Array, "*b"],
    *,
    label_smoothing: float | Float[Array, ""] = 0.0,
) -> Float[Array, "*b"]:
    """Cross-entropy of each token in nats, in float32; zero where the label is not a class.

    With smoothing ε the target is (1 − ε) on the label and ε spread evenly over all classes
    (Szegedy et al. 2016, arXiv 1512.00567). ε may be a traced number.
    """
    log_probabilities = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    known = labels >= 0
    index = jnp.where(known, labels, 0)[..., None]
    of_label = jnp.take_along_axis(log_probabilities, index, axis=-1)[..., 0]
    of_all = jnp.mean(log_probabilities, axis=-1)
    loss = -(1.0 - label_smoothing) * of_label - label_smoothing * of_all
    return jnp.where(known, loss, 0.0)


def token_sums(
    logits: Float[Array, "*b c"],
    labels: Int[Array, "*b"],
    *,
    label_smoothing: float | Float[Array, ""] = 0.0,
) -> dict[str, Sum]:
    """Cross-entropy in nats and hits over all that has a label: "loss" and "accuracy"."""
    losses = token_cross_entropy(logits, labels, label_smoothing=label_smoothing)
    scored = jnp.sum(labels >= 0).astype(jnp.float32)
    hits = jnp.sum((jnp.argmax(logits, axis=-1) == labels).astype(jnp.float32))
    return {"loss": Sum(jnp.sum(losses), scored), "accuracy": Sum(hits, scored)}
