"""From a run's config to the parts that the models of all tasks share: encoder and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import nnx

from attention import positions, variants
from attention.models.decoder import Decoder
from attention.models.encoder import Encoder, EncoderConfig
from attention.models.recurrence import RecurrentConfig
from attention.models.recurrent_seq2seq import RecurrentSeq2Seq
from attention.models.transformer import Transformer
from attention.models.two_pass import TwoPass


def position_of(model: Any) -> Any:
    """Returns the Config of the position scheme `model.position`, with its options."""
    name = model.position
    options = model.positions[name].to_dict() if name in model.positions else {}
    return positions.get(name).Config(**options)


def attention_factory(
    config: Any,
    section: str = "attention",
    *,
    causal: bool | None = None,
    drops_weights: bool = True,
) -> Callable[[int, nnx.Rngs], nnx.Module]:
    """Returns (layer index, rngs) → the attention layer that the config asks for in one place.

    Args:
        config: the run's config.
        section: of `model`: which place.
        causal: None = what `model.direction` says, where positions inside attention apply as well
            as in a causal layer; False = cross-attention, which has neither.
        drops_weights: whether training drops attention weights, at `model.attention_dropout_rate`,
            or where that is None at `model.dropout_rate`.
    """
    model = config.model
    inner = None if causal is False else _inner_position(model)
    two_pass = causal is None and model.direction == "two_pass"
    looks_back = model.direction != "bidirectional" if causal is None else causal
    rate = model.get("attention_dropout_rate")
    if rate is None:
        rate = model.dropout_rate

    def make(layer_index: int, rngs: nnx.Rngs) -> nnx.Module:
        own = model[section].to_dict()
        variant = own.pop("variant")

        def one_way() -> nnx.Module:
            return variants.make(
                variant,
                dim=model.dim,
                num_heads=model.num_heads,
                causal=looks_back,
                position=inner,
                dropout_rate=rate if drops_weights else 0.0,
                dtype=config.dtype,
                max_length=config.data.max_length,
                layer_index=layer_index,
                rngs=rngs,
                **own,
            )

        return TwoPass(one_way) if two_pass else one_way()

    return make


def make_encoder(config: Any, rngs: nnx.Rngs) -> Encoder:
    """Makes the Transformer encoder that the config asks for."""
    return Encoder(stack_settings(config), attention_factory(config), rngs=rngs)


def stack_settings(
    config: Any, *, num_layers: int | None = None, mlp_dim: int | None = None
) -> EncoderConfig:
    """Returns the sizes and options of a stack of blocks; None = what the encoder has."""
    model = config.model
    return EncoderConfig(
        dim=model.dim,
        num_layers=model.num_layers if num_layers is None else num_layers,
        mlp_dim=model.mlp_dim if mlp_dim is None else mlp_dim,
        dropout_rate=model.dropout_rate,
        norm=model.norm,
        activation=model.activation,
        position=position_of(model),
        position_merge=model.position_merge,
        max_length=config.data.max_length,
        dtype=jnp.dtype(config.dtype),
    )


def make_sequence_to_sequence(
    config: Any, *, source_size: int, target_size: int, end_id: int, rngs: nnx.Rngs
) -> nnx.Module:
    """Makes the model from one sequence to another that the config asks for.

    Args:
        config: the run's config; `model.architecture` is "transformer" or "recurrent".
        source_size, target_size: ids of the vocabularies.
        end_id: what a target ends with.
        rngs: for the initial parameters.
    """
    model = config.model
    tables: dict[str, Any] = {
        "source_size": source_size,
        "target_size": target_size,
        "tied_embeddings": model.tied_embeddings,
    }
    recurrent = model.architecture == "recurrent"
    cross = None
    if "cross_attention" in model:
        # A recurrent decoder drops what its cells are given, and no weights of attention, as in
        # the papers.
        cross = attention_factory(
            config, "cross_attention", causal=False, drops_weights=not recurrent
        )
    if recurrent:
        settings = RecurrentConfig(
            dim=model.dim,
            num_layers=model.num_layers,
            cell=model.cell,
            style=model.style,
            dropout_rate=model.dropout_rate,
            dtype=jnp.dtype(config.dtype),
        )
        return RecurrentSeq2Seq(
            settings, cross, pointer=model.pointer, end_id=end_id, rngs=rngs, **tables
        )
    assert cross is not None
    decoder = Decoder(
        stack_settings(
            config, num_layers=model.num_decoder_layers, mlp_dim=model.get("decoder_mlp_dim")
        ),
        attention_factory(config, "decoder_attention", causal=True),
        cross,
        rngs=rngs,
    )
    return Transformer(make_encoder(config, rngs), decoder, rngs=rngs, **tables)


def _inner_position(model: Any) -> Any:
    """Returns the scheme's Config if it acts inside attention, and not at the input."""
    position = position_of(model)
    return None if positions.place(position) == "input" else position
