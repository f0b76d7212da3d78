"""Averaged checkpoints: which are kept, what their mean is, and that nothing else changes."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from support.checkpoints import make_state, save_steps
from support.pairs import pairs_config
from support.runs import metrics_rows, saved_arrays

from attention.errors import Interrupted, UserError
from attention.tools.evaluating import evaluate
from attention.tools.saved_run import open_run
from attention.training import averaging, loop
from attention.training.checkpoint import Checkpoints
from attention.training.evaluate import Evaluator
from attention.training.result import closing_words
from attention.training.run_directory import RunDirectory

SHORT = {
    "model__dim": 8,
    "train_steps": 8,
    "eval_every_steps": 2,
    "checkpoint_every_steps": 3,
    "decode__beam_size": 1,
    "decode__max_length": 6,
}


@pytest.fixture(scope="module")
def averaged_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("averaged")
    config = pairs_config(folder / "data", **SHORT, average_checkpoints=3)
    return folder, loop.train(config, str(folder / "run"))


def kept(run) -> list[int]:
    return sorted(int(entry.name) for entry in (run / "checkpoints").iterdir())


@pytest.mark.fast
def test_the_mean_is_that_of_the_parameters_with_their_types(tmp_path):
    save_steps(tmp_path, 1, 2)
    with Checkpoints(tmp_path) as checkpoints:
        for step in (3, 5):
            checkpoints.save(step, make_state(step), {}, best_step=2, others=[1, 3])
        checkpoints.wait()
        assert checkpoints.steps() == [2, 3, 5]
        steps, params = averaging.average(checkpoints, make_state(0), [1, 2, 5])
    assert steps == [2, 5], "what is not there is left out"
    want = jax.tree.map(
        lambda a, b: ((np.float64(a) + np.float64(b)) / 2).astype(np.float32),
        *(make_state(step).params for step in steps),
    )
    for one, other in zip(jax.tree.leaves(params), jax.tree.leaves(want), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, other)


@pytest.mark.fast
def test_which_are_averaged():
    assert averaging.last_evaluated({}, {5, 10}) == []
    assert averaging.last_evaluated({"average_checkpoints": 0}, {5, 10}) == []
    assert averaging.last_evaluated({"average_checkpoints": 2}, {15, 5, 10}) == [10, 15]
    assert averaging.last_evaluated({"average_checkpoints": 9}, {15, 5, 10}) == [5, 10, 15]


def test_the_last_evaluated_are_kept_and_their_mean_is_scored(averaged_run):
    folder, result = averaged_run
    run = folder / "run"
    assert kept(run) == sorted({4, 6, 8, result["best_step"]})
    words = closing_words(RunDirectory(run), result)
    assert "the mean of the checkpoints 4, 6, 8:" in words and words.count("  bleu ") == 4
    assert result["average"]["steps"] == [4, 6, 8]
    assert list(result["average"]["test"]) == ["bleu", "chrf", "loss", "accuracy"]
    assert (run / "eval" / f"dev-{result['best_step']}.json").is_file()
    found = json.loads((run / "eval" / "dev-average-8.json").read_text())
    assert found["averaged_steps"] == [4, 6, 8] and found["step"] == 8
    assert found["loss"] == result["average"]["eval"]["loss"]
    assert found["loss"] != result["eval"]["loss"]
    saved = open_run(str(run), checkpoint="average")
    arrays = [saved_arrays(run, step) for step in (4, 6, 8)]
    name = next(name for name in arrays[0] if "target_embed" in name and "params" in name)
    want = np.mean([array[name].astype(np.float64) for array in arrays], axis=0)
    np.testing.assert_array_equal(
        saved.params["target_embed"]["embedding"][...], want.astype(np.float32)
    )
    again = evaluate(str(run), split="dev", checkpoint="average")
    assert again == found


@pytest.mark.slow
def test_a_run_stopped_in_an_evaluation_averages_the_same(averaged_run, tmp_path, monkeypatch):
    folder, result = averaged_run
    call = Evaluator.__call__

    def stop_at_6(self, predictor, params, *, poll=lambda: None):
        trainer = poll.__self__
        if trainer.step == 6:
            trainer._interrupt.requested = "SIGTERM"
        return call(self, predictor, params, poll=poll)

    config = pairs_config(folder / "data", **SHORT, average_checkpoints=3)
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "__call__", stop_at_6)
        with pytest.raises(Interrupted):
            loop.train(config, str(tmp_path / "run"))
    again = loop.train(config, str(tmp_path / "run"))
    assert again["average"] == result["average"] and again["test"] == result["test"]
    assert kept(tmp_path / "run") == kept(folder / "run")


@pytest.mark.slow
def test_without_it_nothing_else_is_kept_and_no_number_differs(averaged_run, tmp_path):
    folder, result = averaged_run
    run = tmp_path / "run"
    off = loop.train(pairs_config(folder / "data", **SHORT), str(run))
    assert kept(run) == sorted({8, off["best_step"]}) and "average" not in off
    assert off["eval"] == result["eval"] and off["test"] == result["test"]
    assert metrics_rows(run) == metrics_rows(folder / "run")
    with pytest.raises(
        UserError, match=r"--checkpoint=average: .* --config\.average_checkpoints=5"
    ):
        open_run(str(run), checkpoint="average")


def test_averaging_needs_a_dev_split(tmp_path):
    config = pairs_config(tmp_path / "data", **SHORT, average_checkpoints=2)
    with config.unlocked():
        config.data.eval_source_path = config.data.eval_target_path = None
    with pytest.raises(UserError, match=r"average_checkpoints=2 .* dataset=files has no dev split"):
        loop.train(config, str(tmp_path / "run"))
