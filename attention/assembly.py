"""From a run's config to the parts that the models of all tasks share: encoder and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import nnx

from attention import positions, variants
from attention.models.encoder import Encoder, EncoderConfig
from attention.models.two_pass import TwoPass


def position_of(model: Any) -> Any:
    """Returns the Config of the position scheme `model.position`, with its options."""
    name = model.position
    options = model.positions[name].to_dict() if name in model.positions else {}
    return positions.get(name).Config(**options)


def attention_factory(config: Any) -> Callable[[int, nnx.Rngs], nnx.Module]:
    """Returns (layer index, rngs) → the attention layer that the config asks for."""
    model = config.model
    position = position_of(model)
    inner = None if positions.place(position) == "input" else position  # the encoder has it then

    def make(layer_index: int, rngs: nnx.Rngs) -> nnx.Module:
        own = model.attention.to_dict()
        variant = own.pop("variant")

        def one_way() -> nnx.Module:
            return variants.make(
                variant,
                dim=model.dim,
                num_heads=model.num_heads,
                causal=model.direction != "bidirectional",
                position=inner,
                dropout_rate=model.dropout_rate,
                dtype=config.dtype,
                max_length=config.data.max_length,
                layer_index=layer_index,
                rngs=rngs,
                **own,
            )

        return TwoPass(one_way) if model.direction == "two_pass" else one_way()

    return make


def make_encoder(config: Any, rngs: nnx.Rngs) -> Encoder:
    """Makes the Transformer encoder that the config asks for."""
    model = config.model
    settings = EncoderConfig(
        dim=model.dim,
        num_layers=model.num_layers,
        mlp_dim=model.mlp_dim,
        dropout_rate=model.dropout_rate,
        norm=model.norm,
        activation=model.activation,
        position=position_of(model),
        position_merge=model.position_merge,
        max_length=config.data.max_length,
        dtype=jnp.dtype(config.dtype),
    )
    return Encoder(settings, attention_factory(config), rngs=rngs)
