"""Several streams through the whole of training and evaluation, by a made-up task of pairs."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from support import pairs_task
from support.checkpoints import run_python
from support.runs import losses, metrics_rows, saved_arrays

from attention.data import epochs
from attention.data.plan import PlannedBatch
from attention.data.streams import POSITIONS_PER_SLOT
from attention.errors import Interrupted, UserError
from attention.tools.predicting import predict_stream
from attention.tools.saved_run import open_run
from attention.training import experiment, loop
from attention.training.evaluate import Evaluator, Predictor, plan_split, start_multiple
from attention.training.parallel import make_parallel
from attention.training.result import variant_name
from attention.training.run_directory import RunDirectory
from attention.training.state import init_model
from configs import common


@pytest.fixture(autouse=True)
def pairs(monkeypatch):
    pairs_task.install(monkeypatch)


def stop_at(monkeypatch, step: int) -> None:
    take_step = loop.Trainer._take_step

    def take_and_stop(self):
        take_step(self)
        if self.step == step:
            self._interrupt.requested = "SIGTERM"

    monkeypatch.setattr(loop.Trainer, "_take_step", take_and_stop)


def test_jit_pmap_and_accumulation_give_the_same_losses(tmp_path):
    found = {}
    for name, options in (
        ("jit", {}),
        ("pmap", {"parallelism": "pmap"}),
        ("parts", {"optimizer__accumulation_steps": 2}),
        ("parts_pmap", {"optimizer__accumulation_steps": 2, "parallelism": "pmap"}),
    ):
        result = loop.train(pairs_task.config(train_steps=3, **options), str(tmp_path / name))
        assert result["status"] == "complete"
        found[name] = losses(tmp_path / name)
    assert len(set(found["jit"])) == 3
    for name, values in found.items():
        np.testing.assert_allclose(values, found["jit"], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("parallelism", ["jit", pytest.param("pmap", marks=pytest.mark.slow)])
def test_two_devices_give_the_losses_of_one(tmp_path, parallelism):
    loop.train(pairs_task.config(train_steps=3), str(tmp_path / "one"))
    printed = run_python(
        """
        import sys, json
        import pytest
        from support import pairs_task
        from support.runs import losses
        from attention.training import loop
        with pytest.MonkeyPatch.context() as patch:
            pairs_task.install(patch)
            config = pairs_task.config(train_steps=3, parallelism=sys.argv[2])
            result = loop.train(config, sys.argv[1])
        print(json.dumps([losses(__import__("pathlib").Path(sys.argv[1])), result["eval"]]))
        """,
        tmp_path / "two",
        parallelism,
        devices=2,
    )
    values, scores = json.loads(printed.splitlines()[-1])
    np.testing.assert_allclose(values, losses(tmp_path / "one"), atol=1e-5)
    assert scores.keys() == {"accuracy", "loss"}


@pytest.mark.parametrize("parallelism", ["jit", pytest.param("pmap", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", [{}, {"data__pack": "never"}, "sampled"])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path, monkeypatch, parallelism, options):
    options = {} if options == "sampled" else options
    config = sampled(pairs_task.config(parallelism=parallelism, model__dropout_rate=0.2, **options))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    result = loop.train(config, str(whole))
    with monkeypatch.context() as patch:
        stop_at(patch, 4)
        with pytest.raises(Interrupted):
            loop.train(config, str(broken))
    again = loop.train(config, str(broken))
    assert again["eval"] == result["eval"] and again["test"] == result["test"]
    assert metrics_rows(broken) == metrics_rows(whole)
    expected, arrays = saved_arrays(whole, 6), saved_arrays(broken, 6)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)


def sampled(config):
    """The config with subword regularisation, whose epochs differ in length."""
    with config.unlocked():
        config.data.subword_regularisation = 0.1
    return config


def test_what_is_cut_in_a_later_epoch_alone_is_counted(caplog):
    """A text is drawn in more pieces in one epoch than in another."""
    config = sampled(pairs_task.config())
    with config.unlocked():
        config.data.max_length = 4
    fits = {"source": [3] * 4, "target": [4] * 3, "label": 0, "file": "made_up", "line": 1}
    encoded = experiment.encode_for_training(
        pairs_task.Task(config), pairs_task.split([fits] * 9), config
    )
    caplog.clear()
    longer = int((epochs.samples(9, config.seed, 1, experiment.SAMPLES) % 2).sum())
    assert 0 < longer < 9
    encoded.item_lengths(1)
    assert caplog.messages == [
        f"epoch 2: {longer} of 9 examples have, as they are drawn now, more tokens than "
        "data.max_length=4: each is truncated"
    ]


def test_padding_and_tokens_are_of_all_streams_of_tokens(tmp_path):
    config = pairs_task.config()
    x = experiment.prepare(config, made_run(tmp_path))
    planned = [x.plan.batch(step) for step in range(6)]
    assert all(
        len(batch.rows) == 4 and batch.slots == 16 // POSITIONS_PER_SLOT for batch in planned
    )
    lengths = x.train.item_lengths
    tokens = sum(int(lengths[list(row)].sum()) for batch in planned for row in batch.rows)
    result = loop.train(config, str(tmp_path / "run"))
    assert result["padding_fraction"] == pytest.approx(1 - tokens / (6 * 4 * 16 * 2))
    first = metrics_rows(tmp_path / "run")[0]["train/padding_fraction"]
    held = sum(int(lengths[list(row)].sum()) for row in planned[0].rows)
    assert first == pytest.approx(1 - held / (4 * 16 * 2))


def made_run(tmp_path) -> RunDirectory:
    run = RunDirectory(tmp_path / "prepared")
    run.create()
    return run


def evaluation_of(config, given, *, task_class=pairs_task.Task):
    task, parallel = task_class(config), make_parallel(config.parallelism)
    encoded = experiment.encode_for_evaluation(task, pairs_task.split(given), config)
    parts = init_model(task.make_model, 0)
    evaluator = Evaluator(task, encoded, config, parallel)
    predictor = Predictor(task, parts, parallel)
    params = parallel.place(parts.params)
    return encoded, evaluator(predictor, params), evaluator


@pytest.mark.parametrize("parallelism", ["jit", "pmap"])
def test_outputs_of_each_stream_come_back_in_file_order(parallelism):
    given = pairs_task.examples(23, seed=5)
    found = {}
    for pack in ("always", "never"):
        config = pairs_task.config(data__pack=pack, parallelism=parallelism)
        encoded, evaluation, _ = evaluation_of(config, given)
        for index, example in enumerate(given):
            where = encoded.tokens_of("target", index)
            total = sum(example["source"])
            assert (evaluation.outputs["target"]["source_sum"][where] == total).all()
            assert where.stop - where.start == len(example["target"]) + 1
            sums = evaluation.outputs["examples"]["sums"][index].tolist()
            assert sums == [total, sum(example["target"])]
        found[pack] = evaluation
    assert found["always"].counts == found["never"].counts
    assert found["always"].counts["num_eval_examples"] == 23
    packed, alone = found["always"].outputs, found["never"].outputs
    assert packed["examples"]["class"].shape == (23,)
    np.testing.assert_array_equal(packed["examples"]["class"], alone["examples"]["class"])
    np.testing.assert_allclose(packed["target"]["loss"], alone["target"]["loss"], rtol=1e-5)


def test_long_examples_are_cut_in_both_streams_and_counted_once_a_split(caplog):
    given = [*pairs_task.examples(7, seed=5), *pairs_task.examples(3, seed=6, longest=40)]
    long = [len(one["target"]) + 1 for one in given if len(one["target"]) + 1 > 16]
    with caplog.at_level("WARNING"):
        encoded, evaluation, evaluator = evaluation_of(pairs_task.config(), given)
    assert len(caplog.messages) == len(long) > 0
    assert f"{long[0]} tokens, over data.max_length=16: is truncated" in caplog.messages[0]
    assert evaluation.counts["num_truncated_examples"] == len(long)
    assert evaluation.counts["num_eval_examples"] == 10
    assert encoded.item_lengths.max() == 16
    assert len(list(evaluator.lines(evaluation, limit=99))) == 10


def test_a_task_may_keep_examples_apart_in_evaluation():
    class Apart(pairs_task.Task):
        PACKS_EVALUATION = False

    config = pairs_task.config()
    encoded, evaluation, _ = evaluation_of(config, pairs_task.examples(9, seed=1))
    plan = plan_split(encoded, Apart(config), config, make_parallel("jit"))
    assert all(len(row) <= 1 for batch in plan for row in batch.rows)
    packed = plan_split(encoded, pairs_task.Task(config), config, make_parallel("jit"))
    assert any(len(row) == 2 for batch in packed for row in batch.rows)
    assert all(
        isinstance(batch, PlannedBatch) and batch.slots == 16 // POSITIONS_PER_SLOT
        for batch in packed
    )
    _, apart, _ = evaluation_of(config, pairs_task.examples(9, seed=1), task_class=Apart)
    np.testing.assert_allclose(apart.metrics["loss"], evaluation.metrics["loss"], rtol=1e-6)


def test_epochs_are_encoded_anew_only_where_the_config_asks(tmp_path):
    plain = experiment.prepare(pairs_task.config(), made_run(tmp_path))
    assert plain.task.samples == [None] * 50
    config = sampled(pairs_task.config(train_steps=None, train_epochs=2.0))
    drawn = experiment.prepare(config, made_run(tmp_path / "drawn"))
    first, second = drawn.task.samples[:50], drawn.task.samples[50:100]
    assert len({*first, *second}) == 100 and None not in first
    ids = [item for step in range(drawn.total_steps) for row in drawn.plan.batch(step).rows
           for item in row]  # fmt: skip
    assert sorted(ids) == list(range(100))
    example = drawn.dataset.split("train")[7]
    for epoch, samples in enumerate((first, second)):
        expected = drawn.task.encode(example, sample=samples[7])["source"]["ids"]
        np.testing.assert_array_equal(drawn.train.item(50 * epoch + 7)["source"]["ids"], expected)
    # Evaluation sees each example as it is.
    drawn.task.samples.clear()
    drawn.evaluators()
    assert drawn.task.samples == [None] * 22


def test_new_input_is_answered_line_by_line(tmp_path):
    loop.train(pairs_task.config(), str(tmp_path / "run"))
    saved = open_run(str(tmp_path / "run"))
    text = b"2 3 4\n\n5 6 7 8 9 10\n"
    first, blank, last = predict_stream(saved, io.BytesIO(text))
    assert blank == "\n" and {first, last} <= {"0\n", "1\n"}
    first, _, _ = predict_stream(saved, io.BytesIO(text), logits=True)
    assert first.endswith("\t(1, 2)\n")
    with pytest.raises(UserError, match="--format=conllu is not for task=pairs, which has text"):
        next(predict_stream(saved, io.BytesIO(text), format="conllu"))
    saved.task.LOGITS = {}
    with pytest.raises(UserError, match=r"--logits.*task=pairs"):
        next(predict_stream(saved, io.BytesIO(text), logits=True))


def test_packed_examples_begin_where_every_attention_of_the_model_can():
    config = pairs_task.config()
    assert start_multiple(config) == 1
    with config.unlocked():
        config.model.attention = section("bigbird", pattern_block=4)
        config.model.decoder_attention = section("scaled_dot")
        config.model.cross_attention = section("bigbird", pattern_block=6)
    assert start_multiple(config) == 12
    assert variant_name(config) == "bigbird/scaled_dot"


def section(variant: str, **options):
    chosen = common.attention_section(variant)
    chosen.update(options)
    return chosen


def test_a_model_without_attention_has_no_variant(tmp_path):
    result = loop.train(pairs_task.config(train_steps=1), str(tmp_path / "run"))
    assert result["variant"] is None and result["flops"] > 0
