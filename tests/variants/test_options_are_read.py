"""An option that nothing reads is a defect: each is used by the layer of its variant."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from support.cases import DIM, HEADS, LENGTH, other_sequence, small_options
from support.recording import recorded_fields

from attention import variants

pytestmark = pytest.mark.fast


def read_by_a_layer(name: str, **options) -> set[str]:
    variant = variants.get(name)
    reads: set[str] = set()

    def run():
        layer = variants.make(
            name,
            dim=DIM,
            num_heads=HEADS,
            causal="causal" in variant.MODES,
            max_length=LENGTH,
            rngs=nnx.Rngs(0),
            **options,
        )
        x = jnp.zeros((1, LENGTH, DIM))
        return layer(x, **other_sequence(name, x), rngs=nnx.Rngs(0))

    with recorded_fields({variant.Config: "own"}, reads):
        jax.eval_shape(run)
    return {key.removeprefix("own.") for key in reads}


@pytest.mark.long
@pytest.mark.parametrize("name", variants.names())
def test_every_option_is_read(name):
    small = dict(small_options(name))
    fields = {f.name: f for f in dataclasses.fields(variants.get(name).Config)}
    read = read_by_a_layer(name, **small)
    if "normalizer" in fields and not fields["normalizer"].metadata.get("fixed"):
        read |= read_by_a_layer(name, **{**small, "normalizer": "entmax"})  # which has an option
    # What the name decides need not be looked at; α belongs to one normalizer alone.
    idle = {key for key, field in fields.items() if field.metadata.get("fixed")}
    if "normalizer" in idle and fields["normalizer"].default != "entmax":
        idle.add("alpha")
    assert not set(fields) - read - idle
