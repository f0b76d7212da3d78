"""Packed rows give what separate rows give; a variant that cannot pack gets length buckets."""

import jax
import numpy as np
import pytest
from flax import nnx
from support.made_up_variants import install_unpackable
from support.runs import (
    counting_programs,
    losses,
    metrics_rows,
    small_config,
    small_overrides,
)

from attention import configuration
from attention.data.encoded import EncodedSplit
from attention.data.packing import best_fit, bucket_lengths
from attention.data.pipeline import assemble
from attention.data.plan import PlannedBatch
from attention.errors import UserError
from attention.tasks import pos_tagging
from attention.tools.evaluating import evaluate
from attention.training import experiment, loop
from attention.training.optimizer import make_hyper
from attention.training.state import init_model, init_state
from attention.training.step import make_train_step

MAX_LENGTH = 32


@pytest.mark.parametrize("options", [{}, {"model__position": "learned", "model__norm": "post"}])
def test_evaluation_packed_equals_one_sentence_a_row(tmp_path, options):
    packed = small_config(tmp_path / "data", train_steps=4, data__pack="always", **options)
    result = loop.train(packed, str(tmp_path / "run"))
    path = tmp_path / "run" / "config.json"
    path.write_text(path.read_text().replace('"pack": "always"', '"pack": "never"'))
    again = evaluate(str(tmp_path / "run"), split="dev", checkpoint=str(result["best_step"]))
    assert again["accuracy"] == result["eval"]["accuracy"]
    np.testing.assert_allclose(again["loss"], result["eval"]["loss"], rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"model__position": "learned", "model__norm": "post"}])
def test_a_training_step_packed_equals_the_same_sentences_unpacked(tmp_path, options):
    """Loss, gradients and the norm that clipping sees, of one batch that holds every sentence."""
    still = {"model__dropout_rate": 0.0, "model__word_dropout_rate": 0.0}
    config = small_config(tmp_path / "data", **still, **options)
    examples = experiment.open_dataset(config).split("train")
    task = pos_tagging.Task.fit(config, examples)
    parts = init_model(task.make_model, config.seed)
    hyper = make_hyper(config, total_steps=10, warmup_steps=1, rates=parts.rates)
    step = jax.jit(make_train_step(parts.structure, task.loss, schedule="constant"))

    @jax.jit
    def loss_and_gradients(params, batch):
        def objective(params):
            model = nnx.merge(parts.structure, params, parts.rates)
            return task.loss(model, batch, rngs=nnx.Rngs(0), label_smoothing=0.0)["loss"].total

        return jax.value_and_grad(objective)(params)

    found = {}
    for packed in (True, False):
        batch = everything_in_one_batch(task, examples, packed=packed)
        found[packed] = (
            loss_and_gradients(parts.params, batch),
            step(init_state(parts.params), batch, hyper),
        )
    assert len(examples) == 60  # as many rows unpacked, and fewer packed
    (loss, gradients), (_, metrics) = found[True]
    (unpacked_loss, unpacked_gradients), (_, unpacked_metrics) = found[False]
    assert metrics.sums["loss"].count == unpacked_metrics.sums["loss"].count > 400
    np.testing.assert_allclose(loss, unpacked_loss, rtol=1e-5)
    np.testing.assert_allclose(
        metrics.sums["loss"].total, unpacked_metrics.sums["loss"].total, rtol=1e-5
    )
    np.testing.assert_allclose(metrics.gradient_norm, unpacked_metrics.gradient_norm, rtol=1e-5)
    pairs = zip(jax.tree.leaves(gradients), jax.tree.leaves(unpacked_gradients), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, atol=1e-5 * max(1.0, float(abs(other).max())))


def everything_in_one_batch(task, examples, *, packed):
    """All sentences in as many rows as they take: several a row, or one."""
    encoded = EncodedSplit(examples, task.encode, streams=task.STREAMS, max_length=MAX_LENGTH)
    lengths = encoded.item_lengths[:, 0].tolist()
    items = range(len(lengths))
    rows = best_fit(lengths, MAX_LENGTH) if packed else [(item,) for item in items]
    assert sorted(item for row in rows for item in row) == list(items)
    assert (len(rows) < len(items)) == packed
    planned = PlannedBatch(MAX_LENGTH, tuple(rows))
    return assemble([[encoded.item(i) for i in row] for row in rows], planned, task.STREAMS)


@pytest.fixture
def unpackable(monkeypatch):
    return install_unpackable(monkeypatch)


def test_a_variant_that_cannot_pack_gets_length_buckets(tmp_path, unpackable, caplog):
    spec = f"configs/pos_tagging.py:dataset=files,size=tiny,variant={unpackable}"
    config = configuration.load_config(spec, small_overrides(tmp_path / "data"))
    assert config.data.pack == "never"
    with caplog.at_level("INFO"), counting_programs() as programs:
        result = loop.train(config, str(tmp_path / "run"))
    assert result["status"] == "complete"
    assert "no packing" in caplog.text
    assert len(losses(tmp_path / "run")) == 12
    assert 1 < programs[0][0] <= len(bucket_lengths(32))  # at most one program a bucket


def test_packing_it_all_the_same_is_refused(tmp_path, unpackable):
    spec = f"configs/pos_tagging.py:dataset=files,size=tiny,variant={unpackable}"
    with pytest.raises(UserError, match=r"data\.pack.*packed"):
        configuration.load_config(spec, small_overrides(tmp_path / "d", data__pack="always"))


def test_one_program_for_the_whole_packed_run(tmp_path):
    with counting_programs() as programs:
        loop.train(
            small_config(tmp_path / "data", train_epochs=2, train_steps=None), str(tmp_path / "run")
        )
    assert programs == [(1, 2)]  # dev and test are of different sizes
    rows = metrics_rows(tmp_path / "run")
    assert rows[-1]["step"] > 2
