"""A head that copies: it points at a position of the source, whose token is the output.

Pointer Networks (Vinyals et al. 2015), arXiv 1506.03134: a_j ∝ exp(uᵀ tanh(W₁ k_j + W₂ x)), and the
probability of a token is the sum of a over the positions where it stands ("alone"). Get To The
Point: Summarization with Pointer-Generator Networks (See et al. 2017), arXiv 1704.04368, equation
9: P = p·P_vocabulary + (1 − p)·Σ a, p = σ(w·x) ("mixed"). It departs from the latter in pointing
with weights of its own, whatever attention the decoder has, and in that p sees only x, what the
output is made from. Source and target share one vocabulary.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention.core.linear import Linear
from attention.ops import additive
from attention.ops.option_checks import check_choice
from attention.ops.softmax import masked_softmax

MODES = ("alone", "mixed")
# The least number of float32 with all its digits: what is not there has a finite logarithm.
FLOOR = float(np.finfo(np.float32).tiny)


class PointerHead(nnx.Module):
    """Weights over source positions, and how much to copy."""

    def __init__(
        self,
        mode: str,
        *,
        dim: int,
        context_dim: int,
        end_id: int | None = None,
        rngs: nnx.Rngs,
    ):
        """Makes the head.

        Args:
            mode: "alone" or "mixed".
            dim, context_dim: widths of what points and of what is pointed at.
            end_id: a token that can always be pointed at, behind the source, with a learned key: a
                head alone could not end otherwise.
            rngs: for the initial parameters.

        Raises:
            UserError: another mode.
        """
        check_choice("model.pointer", mode, MODES)
        self.end_id = end_id
        self.query = Linear(dim, dim, rngs=rngs)
        self.key = Linear(context_dim, dim, rngs=rngs)
        normal = nnx.initializers.normal(dim**-0.5)
        self.score_vector = nnx.Param(normal(rngs.params(), (1, dim), jnp.float32))
        self.end_key = (
            None if end_id is None else nnx.Param(normal(rngs.params(), (dim,), jnp.float32))
        )
        self.gate = Linear(dim, 1, rngs=rngs) if mode == "mixed" else None

    def keys(self, states: Float[Array, "b s c"]) -> Float[Array, "b s1 d"]:
        """Returns a key for each source position, and at last that of the end where it has one."""
        keys = self.key(states)
        if self.end_key is None:
            return keys
        end = jnp.broadcast_to(self.end_key[...], (keys.shape[0], 1, keys.shape[2]))
        return jnp.concatenate([keys, end.astype(keys.dtype)], axis=1)

    def weights(
        self,
        x: Float[Array, "b t d"],
        keys: Float[Array, "b s1 d"],
        *,
        visible: Bool[Array, "b t s"],
    ) -> Float[Array, "b t s1"]:
        """Returns how likely each position is, in float32; zeros where none may be pointed at."""
        query, score_vector = self.query(x)[:, :, None], self.score_vector[...]
        scores = additive.score(query, keys[:, :, None], score_vector)[:, 0]
        if self.end_id is not None:
            visible = jnp.pad(visible, ((0, 0), (0, 0), (0, 1)), constant_values=True)
        return masked_softmax(scores, visible)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        keys: Float[Array, "b s1 d"],
        tokens: Int[Array, "b s"],
        logits: Float[Array, "b t v"] | None,
        *,
        visible: Bool[Array, "b t s"],
        size: int,
    ) -> Float[Array, "b t v"]:
        """Returns the log-probability of each of `size` = v tokens, in float32.

        Args:
            x: what the output is made from.
            keys: of the source, see `keys`.
            tokens: the source's.
            logits: of generation; None for a head alone.
            visible: which source positions each target position may point at.
            size: of the vocabulary.
        """
        weights = self.weights(x, keys, visible=visible)
        if self.end_id is not None:
            tokens = jnp.pad(tokens, ((0, 0), (0, 1)), constant_values=self.end_id)
        copied = sum_by_token(weights, tokens, size=size)
        if self.gate is None or logits is None:
            return log_or_floor(copied)
        anything = jnp.any(weights > 0.0, axis=-1, keepdims=True)
        # With nothing to copy, all is generated: no probability is lost.
        gate = self.gate(x).astype(jnp.float32)
        generate = jnp.where(anything, jax.nn.log_sigmoid(gate), 0.0)
        return mixed(logits, copied, generate=generate, copy=jax.nn.log_sigmoid(-gate))


def sum_by_token(
    weights: Float[Array, "b t s"], tokens: Int[Array, "b s"], *, size: int
) -> Float[Array, "b t v"]:
    """Returns Σ weight over the positions of each token; ids past the vocabulary count nowhere."""

    def of_row(weights, tokens):
        return jnp.zeros((size, weights.shape[0]), weights.dtype).at[tokens].add(weights.T)

    return jnp.swapaxes(jax.vmap(of_row)(weights, tokens), 1, 2)


def log_or_floor(probabilities: Float[Array, "b t v"]) -> Float[Array, "b t v"]:
    """Returns log p, about −87 where p is 0, without a slope there."""
    return jnp.log(jnp.maximum(probabilities, FLOOR))


def mixed(
    logits: Float[Array, "b t v"],
    copied: Float[Array, "b t v"],
    *,
    generate: Float[Array, "b t 1"],
    copy: Float[Array, "b t 1"],
) -> Float[Array, "b t v"]:
    """Returns log(e^generate · softmax(logits) + e^copy · copied), safe where `copied` is 0."""
    generated = generate + jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    there = copied > 0.0
    other = copy + log_or_floor(jnp.where(there, copied, 1.0))
    return jnp.where(there, jnp.logaddexp(generated, other), generated)
