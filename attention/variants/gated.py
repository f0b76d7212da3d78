"""Gated attention: what each head gives is let through or held back, feature by feature.

Gated Attention for Large Language Models (Qiu et al. 2025), arXiv 2505.06708, the gate after the
weighted sum, elementwise for each head: out = σ(x W_g) ⊙ softmax(QKᵀ/√h)V, x the layer's input.
`attend` takes the value after the sigmoid, `gate` [b t n h]; `weights` are those before the gate.
Time t·s·h, memory t·s per head. A query that sees no key gives zeros whatever its gate is.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention.core.exact import ExactConfig
from attention.core.exact_variant import ALL_MODES, ALL_POSITIONS, ExactVariant
from attention.core.layer import AttentionLayer
from attention.core.linear import Linear
from attention.core.parts import Score
from attention.ops import masks, scores

MODES = ALL_MODES
POSITIONS = ALL_POSITIONS
PERMUTATION_EQUIVARIANT = True  # without positions, bidirectional


@dataclass(frozen=True)
class Config(ExactConfig):
    """The options of the exact core, and none besides."""


class GatedLayer(AttentionLayer):
    """The layer: a linear map of its input makes the gate."""

    def make_projections(self, rngs: nnx.Rngs) -> None:
        super().make_projections(rngs)
        settings = self.settings
        self.gate = Linear(settings.dim, settings.num_heads * settings.head_dim, rngs=rngs)

    def joined(
        self, heads: Float[Array, "b t n h"], x: Float[Array, "b t d"]
    ) -> Float[Array, "b t d"]:
        logits = self._heads(self.gate, x).astype(jnp.float32)
        return super().joined(gated(heads, jax.nn.sigmoid(logits)), x)


def gated(heads: Float[Array, "b t n h"], gate: Float[Array, "b t n h"]) -> Float[Array, "b t n h"]:
    """Returns gate ⊙ heads in the type of the heads."""
    return (heads.astype(jnp.float32) * gate.astype(jnp.float32)).astype(heads.dtype)


VARIANT = ExactVariant(Config, Score(scores.scaled_dot), layer=GatedLayer)
make = VARIANT.make


def attend(
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    v: Float[Array, "b s k h_v"],
    *,
    gate: Float[Array, "b t n h_v"] | None = None,
    **given: Any,
) -> Float[Array, "b t n h_v"]:
    """Returns gate ⊙ the weighted sums of the values, in their type.

    Args:
        q, k, v: queries, keys and values.
        gate: in [0, 1], the value after the sigmoid; needed.
        **given: see `ExactVariant.attend`.

    Raises:
        ValueError: no gate, or one of another shape than the result; and as `ExactVariant.attend`.
    """
    if gate is None:
        raise ValueError("the array gate [b t n h] is missing: give it as a keyword")
    heads = VARIANT.attend(q, k, v, **given)
    if gate.shape != heads.shape:
        raise ValueError(f"gate has shape {gate.shape}, not [b t n h] = {heads.shape}")
    # Padding has zeros already, and a gate of NaN there must not make others of them.
    ids = given.get("segment_ids")
    gate = gate if ids is None else masks.blanked(gate, masks.real_tokens(ids, None))
    return gated(heads, gate)


def weights(
    q: Float[Array, "b t n h"],
    k: Float[Array, "b s k h"],
    *,
    gate: Float[Array, "b t n h_v"] | None = None,
    **given: Any,
) -> Float[Array, "b n t s"]:
    """Returns the share of each value before the gate, which is not looked at, in float32."""
    return VARIANT.weights(q, k, **given)
