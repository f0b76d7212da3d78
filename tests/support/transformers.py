"""Small Transformers with any variant in any place, and packed pairs for them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from flax import nnx
from support.cases import small_options

from attention import positions, variants
from attention.models.decoder import Decoder
from attention.models.encoder import Encoder, EncoderConfig
from attention.models.transformer import Transformer

DIM, HEADS, SIZE, MAX_LENGTH = 24, 4, 19, 16
SOURCES, TARGETS = (3, 2, 5), (4, 5, 3)  # tokens of each pair


def make_factory(name: str, config: EncoderConfig, *, causal: bool = False, inner: Any = None):
    """Returns (layer index, rngs) → layer of a variant, its windows small."""

    def make(layer_index, rngs):
        return variants.make(
            name,
            dim=config.dim,
            num_heads=HEADS,
            causal=causal,
            position=inner,
            dropout_rate=config.dropout_rate,
            dtype=config.dtype,
            max_length=MAX_LENGTH,
            layer_index=layer_index,
            rngs=rngs,
            **dict(small_options(name)),
        )

    return make


def make_config(**settings: Any) -> EncoderConfig:
    """Returns the config of a small stack."""
    given = {"dim": DIM, "num_layers": 1, "mlp_dim": 10, "max_length": MAX_LENGTH, **settings}
    return EncoderConfig(**given)


def make_transformer(
    encoder: str = "scaled_dot",
    decoder: str = "scaled_dot",
    cross: str = "scaled_dot",
    *,
    tied: str = "all",
    sizes: tuple[int, int] = (SIZE, SIZE),
    **settings: Any,
) -> Transformer:
    """Makes a Transformer whose parameters are all off their initial values."""
    config, rngs = make_config(**settings), nnx.Rngs(0)
    inner = config.position if positions.place(config.position) == "attention" else None
    model = Transformer(
        Encoder(config, make_factory(encoder, config, inner=inner), rngs=rngs),
        Decoder(
            config,
            make_factory(decoder, config, causal=True, inner=inner),
            make_factory(cross, config),
            rngs=rngs,
        ),
        source_size=sizes[0],
        target_size=sizes[1],
        tied_embeddings=tied,
        rngs=rngs,
    )
    jiggle(model)
    return model


def jiggle(model: nnx.Module) -> None:
    """Moves every parameter off its initial value: biases of zero would hide faults."""
    random = np.random.default_rng(4)
    state = nnx.state(model, nnx.Param)
    nnx.update(
        model,
        jax.tree.map(
            lambda p: p + np.float32(0.1) * random.normal(size=p.shape).astype("f"), state
        ),
    )


def compiled(model: nnx.Module, method: str = "__call__"):
    """Returns a method of the model, compiled; its numbers are arguments of the program."""
    graphdef, state = nnx.split(model)

    def call(state, *args, **given):
        return getattr(nnx.merge(graphdef, state), method)(*args, **given)

    run = jax.jit(call)
    return lambda *args, **given: run(state, *args, **given)


def rows(layout: list[tuple[int, ...]], length: int) -> dict[str, np.ndarray]:
    """Returns a batch: row i holds the pairs whose numbers layout[i] lists."""
    random = np.random.default_rng(0)
    given = [
        [random.integers(4, SIZE, n) for n in lengths]
        for lengths in zip(SOURCES, TARGETS, strict=True)
    ]
    sides = (("source", "source_segment_ids"), ("inputs", "target_segment_ids"))
    batch = {n: np.zeros((len(layout), length), np.int32) for names in sides for n in names}
    for row, numbers in enumerate(layout):
        for side, (tokens, ids) in enumerate(sides):
            start = 0
            for segment, number in enumerate(numbers, 1):
                stop = start + len(given[number][side])
                batch[tokens][row, start:stop] = given[number][side]
                batch[ids][row, start:stop] = segment
                start = stop
    return batch
