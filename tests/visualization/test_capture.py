"""What is captured is what the pass used, and capturing changes nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from visualization.opened import seen

from attention.data.pipeline import eval_batches
from attention.training.evaluate import outputs_of
from attention.visualization.capture import logits_of, plain_logits
from attention.visualization.maps import map_of
from attention.visualization.places import record

RUNS = {
    "tagging": {"model__attention__implementation": "chunked", "model__attention__block_size": 4},
    "tagging both ways": {"model__direction": "two_pass"},
    "sentiment": {"model__pooling": "attention"},
    "translation": {},
    "translation recurrent": {"argument": "model=recurrent,cross=location_sensitive"},
    "translation copying": {
        "argument": "model=recurrent,cross=none",
        "model__pointer": "alone",
        "label_smoothing": 0.0,
        "model__style": "bahdanau",
    },
}
HEAVY = ("translation recurrent", "translation copying")


def seen_by(name):
    return seen(name.split()[0], **RUNS[name])


def model_and_batch(one):
    saved, inputs = one.saved, one.inputs
    model = nnx.merge(saved.parts.structure, saved.parts.params, saved.parts.rates)
    batches = eval_batches(inputs.encoded.item, inputs.plan, streams=saved.task.STREAMS)
    ((_, batch),) = [*batches]
    return model, jax.tree.map(jnp.asarray, batch)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in HEAVY else ()) for n in RUNS]
)
def test_logits_are_those_of_a_pass_without_capture(name):
    one = seen_by(name)
    plain = plain_logits(one.saved, one.inputs.encoded, one.inputs.plan)
    assert len(plain) == len(one.captured) == 2
    for captured, logits in zip(one.captured, plain, strict=True):
        assert captured.logits.shape == logits.shape and np.ptp(logits) > 0.1
        np.testing.assert_allclose(captured.logits, logits, rtol=1e-6, atol=2e-6)


def test_logits_are_those_that_predictions_are_made_from():
    one = seen_by("sentiment")
    saved, inputs = one.saved, one.inputs
    outputs = saved.predictor.outputs(
        saved.params, inputs.encoded, inputs.plan, names={"examples": ("logits",)}
    )
    for index, captured in enumerate(one.captured):
        logits = outputs_of(outputs, inputs.encoded, index)["examples"]["logits"]
        np.testing.assert_allclose(captured.logits, logits, rtol=1e-6, atol=2e-6)


def test_without_compilation_recorded_logits_are_the_same_bit_for_bit():
    one = seen_by("tagging")
    plain, batch = model_and_batch(one)
    recorded, _ = model_and_batch(one)
    calls = record(recorded)
    given = logits_of(one.saved.task, recorded, batch)
    assert np.array_equal(logits_of(one.saved.task, plain, batch), given)
    # The weights are those that made the output, though that was computed in blocks.
    (call,) = calls
    (x,), layer = call.arguments, call.layer
    _, weights = map_of(call)
    heads = jnp.einsum("bnts,bsnh->btnh", weights, layer.values(x, None))
    np.testing.assert_allclose(layer.joined(heads, x), layer(x, **call.given), atol=1e-5)


def test_both_ways_of_two_passes_are_shown_in_the_order_of_the_text():
    one = seen_by("tagging both ways")
    layers = one.layers()
    assert [*layers] == ["encoder-1-forward", "encoder-1-backward"]
    onward, backward = (layer.values for layer in layers.values())
    assert np.array_equal(onward, np.tril(onward))
    assert np.array_equal(backward, np.triu(backward))
    for way in (onward, backward):
        assert np.all(way[:, 0, 0] > 0.0)
        np.testing.assert_allclose(way.sum(axis=2), 1.0, atol=1e-6)
    assert one.layers(1)["encoder-1-backward"].values.shape == (2, 1, 1)


def test_a_translator_has_three_kinds_of_places():
    one = seen_by("translation")
    layers, sequences = one.layers(), one.inputs.sequences[0]
    assert [*layers] == ["encoder-1", "decoder-1-self", "decoder-1-cross"]
    source, written = len(sequences["source"]), len(sequences["written"])
    assert layers["encoder-1"].values.shape == (2, source, source)
    itself = layers["decoder-1-self"].values
    assert itself.shape == (2, written, written) and np.array_equal(itself, np.tril(itself))
    across = layers["decoder-1-cross"].values
    assert across.shape == (2, written, source) and source != written
    np.testing.assert_allclose(across.sum(axis=2), 1.0, atol=1e-6)


@pytest.mark.slow
def test_recurrent_attention_is_what_the_model_calls_its_alignments():
    one = seen_by("translation recurrent")
    model, _ = model_and_batch(one)
    ((name, layer),) = one.layers().items()
    assert (name, layer.found.variant) == ("decoder-cross", "location_sensitive")
    item = one.inputs.encoded.item(0)
    weights = model.alignments(item["source"]["ids"][None], item["target"]["inputs"][None])
    np.testing.assert_allclose(layer.values, weights[0], atol=1e-5)


@pytest.mark.slow
def test_a_decoder_without_attention_shows_how_it_depends_on_the_source():
    layers = seen_by("translation copying").layers()
    fixed, pointer = layers["decoder-cross"], layers["pointer"]
    assert fixed.found.kind == "jacobian" and "without attention" in fixed.found.note
    # Both ends of the encoder's states are all that it is given.
    assert np.all(fixed.values[:, :, [0, -1]] > 0.0) and not np.any(fixed.values[:, :, 1:-1])
    # Alone, a pointer can point at the end as well.
    assert pointer.values.shape[2] == fixed.values.shape[2] + 1
    np.testing.assert_allclose(pointer.values.sum(axis=2), 1.0, atol=1e-6)


def test_pooling_shows_one_row_and_padding_has_no_share():
    one = seen_by("sentiment")
    assert [len(sequences["tokens"]) for sequences in one.inputs.sequences][1] < 8
    for index in range(2):
        layers = one.layers(index)
        pooled = layers["pooling"].values
        tokens = len(one.inputs.sequences[index]["tokens"])
        assert pooled.shape == (1, 1, tokens)
        assert layers["encoder-1"].values.shape == (2, tokens, tokens)
        for values in (pooled, layers["encoder-1"].values):  # nothing lies beyond what is shown
            np.testing.assert_allclose(values.sum(axis=2), 1.0, atol=1e-6)
