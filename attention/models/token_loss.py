"""The cross-entropy of tokens against a large vocabulary, without an array of all logits.

On a CPU the logits [b t v] cost more to write and read than to compute: of 2,048 tokens and 10,000
ids they are 82 MB, and so is their gradient. Here the loss and its gradients are made for a few
tokens at a time, while their logits lie in the cache, and for real tokens only: half the time or
less of `Embedding.logits` with a loss behind it. An accelerator, which has the room and wants large
products, gets all tokens at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

CHUNK = 128  # tokens; with 64 to 256 of them it is about as fast


class TokenLoss(NamedTuple):
    """Sums over the tokens that have a label.

    Attributes:
        loss: cross-entropy in nats.
        correct: how many tokens have no id with a larger logit than their label's.
    """

    loss: Float[Array, ""]
    correct: Float[Array, ""]


def token_loss(
    x: Float[Array, "b t d"],
    table: Float[Array, "v d"],
    labels: Int[Array, "b t"],
    *,
    label_smoothing: float | Float[Array, ""] = 0.0,
) -> TokenLoss:
    """Returns what the logits x · tableᵀ say of the labels, summed, in float32.

    Args:
        x: the states; products are made in their type.
        table: the vectors of the ids.
        labels: −1 = none.
        label_smoothing: ε: the target is (1 − ε) on the label and ε spread evenly over all ids
            (Szegedy et al. 2016, arXiv 1512.00567); may be traced. It gets no gradient.
    """
    return TokenLoss(*_sums(x, table, labels, jnp.float32(label_smoothing)))


@jax.custom_vjp
def _sums(x, table, labels, smoothing):
    """Returns (loss, correct)."""
    return _on_platform(x, table, labels, smoothing, with_gradients=False).sums


def _sums_and_gradients(x, table, labels, smoothing):
    """Returns (loss, correct), and the gradients of the loss to x and to the table."""
    part = _on_platform(x, table, labels, smoothing, with_gradients=True)
    loss, correct, to_table = part.sums
    to_x = part.to_x.astype(x.dtype).reshape(x.shape)
    return (loss, correct), (to_x, to_table.T.astype(table.dtype))


def _back(gradients, cotangents):
    to_x, to_table = gradients
    scale = cotangents[0]  # what is counted has no slope
    return (to_x * scale).astype(to_x.dtype), to_table * scale, None, None


_sums.defvjp(_sums_and_gradients, _back)


class _Part(NamedTuple):
    """What some tokens give.

    Attributes:
        sums: loss, correct and, if asked for, the gradient of the loss to the table, as [d v].
        to_x: the gradient to the tokens, if asked for.
    """

    sums: tuple[Array, ...]
    to_x: Any


def _on_platform(x, table, labels, smoothing, *, with_gradients: bool) -> _Part:
    def run(way):
        return lambda *given: way(*given, with_gradients)

    return jax.lax.platform_dependent(
        *(x.reshape(-1, x.shape[-1]), table.astype(x.dtype), labels.reshape(-1), smoothing),
        cpu=run(_in_chunks),
        default=run(_part),
    )


def _in_chunks(x, table, labels, smoothing, with_gradients: bool) -> _Part:
    """Does what `_part` does, for as many chunks as have tokens with a label."""
    order = jnp.argsort(labels < 0, stable=True)
    more = -len(labels) % CHUNK
    tokens = jnp.pad(x[order], ((0, more), (0, 0)))
    wanted = jnp.pad(labels[order], (0, more), constant_values=-1)

    def add_chunk(index, so_far: _Part) -> _Part:
        start = index * CHUNK
        chunk = [jax.lax.dynamic_slice_in_dim(array, start, CHUNK) for array in (tokens, wanted)]
        part = _part(chunk[0], table, chunk[1], smoothing, with_gradients)
        sums = jax.tree.map(jnp.add, so_far.sums, part.sums)
        if not with_gradients:
            return _Part(sums, None)
        return _Part(sums, jax.lax.dynamic_update_slice_in_dim(so_far.to_x, part.to_x, start, 0))

    zeros = [jnp.zeros(shape, jnp.float32) for shape in ((), (), table.shape[::-1], tokens.shape)]
    start = _Part(tuple(zeros[:3]), zeros[3]) if with_gradients else _Part(tuple(zeros[:2]), None)
    num_chunks = (jnp.sum(labels >= 0) + CHUNK - 1) // CHUNK
    total = jax.lax.fori_loop(0, num_chunks, add_chunk, start)
    if not with_gradients:
        return total
    return total._replace(to_x=zeros[3][: len(x)].at[order].set(total.to_x[: len(x)]))


def _part(x, table, labels, smoothing, with_gradients: bool) -> _Part:
    """Returns what the tokens x [n d] give."""
    known = (labels >= 0)[:, None]
    x = jnp.where(known, x, jnp.zeros((), x.dtype))  # padding may hold anything, and 0 · NaN is NaN
    logits = _product("nd,vd->nv", x, table)
    of_label = jnp.arange(logits.shape[1])[None, :] == labels[:, None]
    largest = jnp.max(logits, axis=1, keepdims=True)
    powers = jnp.exp(logits - largest)
    total = jnp.sum(powers, axis=1, keepdims=True)
    label_logit = jnp.sum(jnp.where(of_label, logits, 0.0), axis=1, keepdims=True)
    target = (1.0 - smoothing) * label_logit + smoothing * jnp.mean(logits, 1, keepdims=True)
    loss = jnp.where(known, jnp.log(total) + largest - target, 0.0)
    correct = (known & (label_logit >= largest)).astype(jnp.float32)
    sums = jnp.sum(loss), jnp.sum(correct)
    if not with_gradients:
        return _Part(sums, None)
    to_logits = powers / total - (1.0 - smoothing) * of_label - smoothing / logits.shape[1]
    to_logits = jnp.where(known, to_logits, 0.0).astype(x.dtype)
    to_table = _product("nd,nv->dv", x, to_logits)
    return _Part((*sums, to_table), _product("nv,vd->nd", to_logits, table))


def _product(spec: str, first: Array, second: Array) -> Array:
    """Multiplies in the type of the operands and returns float32; see `ops.products._einsum`."""
    product = jnp.einsum(spec, first, second, preferred_element_type=jnp.float32)
    return jax.lax.optimization_barrier(product)
