"""Runs that train at once: each is what it is alone, and none touches another."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref

import jax
import pytest
from support.cases import small_options
from support.runs import losses, metrics_rows, saved_arrays, small_config

from attention import variants
from attention.errors import Failure, Interrupted, UserError
from attention.training import loop, together
from attention.training.mapped import MappedStep
from attention.training.shared import Shared
from attention.training.vectorize import check_alike, newest_step, train_together

# Numbers alone, one of each kind.
POINTS = (
    {"optimizer__learning_rate": 3e-3, "seed": 1},
    {"optimizer__learning_rate": 1e-3, "seed": 2, "model__dropout_rate": 0.3},
    {"optimizer__weight_decay": 0.3, "label_smoothing": 0.1, "optimizer__warmup_steps": 3},
)
SAME_ORDER = {"data__order_seed": 5, "model__dropout_rate": 0.1}


def configs(folder, points=POINTS, **common):
    return [small_config(folder / "data", **{**SAME_ORDER, **common, **point}) for point in points]


def workdirs(folder, number=3):
    return [str(folder / f"run{index}") for index in range(number)]


def close(ours, theirs) -> bool:
    return len(ours) == len(theirs) and ours == pytest.approx(theirs, abs=1e-4)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The losses of each point trained by itself, and what the runs shared."""
    folder, shared = tmp_path_factory.mktemp("alone"), Shared()
    results = [
        loop.train(config, workdir, shared=shared)
        for config, workdir in zip(configs(folder), workdirs(folder), strict=True)
    ]
    return folder, [losses(folder / f"run{index}") for index in range(len(POINTS))], results


def test_runs_one_after_the_other_share_a_program(alone):
    _, _, results = alone
    first, *others = results
    assert first["compile_seconds"] > 0
    assert [result["compile_seconds"] for result in others] == [0, 0]


def test_a_shared_program_changes_nothing(alone, tmp_path):
    _, expected, results = alone
    config = configs(tmp_path)[1]
    result = loop.train(config, str(tmp_path / "run"))
    assert losses(tmp_path / "run") == expected[1]
    assert result["eval"] == results[1]["eval"] and result["test"] == results[1]["test"]


def test_each_run_is_what_it_is_alone(alone, tmp_path):
    folder, expected, results = alone
    shared = Shared()
    outcomes = train_together(configs(tmp_path), workdirs(tmp_path), shared=shared)
    for index, outcome in enumerate(outcomes):
        assert outcome.error is None
        assert close(losses(tmp_path / f"run{index}"), expected[index])
        assert outcome.result["status"] == "complete"
        assert outcome.result["flops"] == results[index]["flops"] > 0
        assert outcome.result["eval"]["loss"] == pytest.approx(results[index]["eval"]["loss"], 1e-3)
        step = outcome.result["best_step"]
        ours = saved_arrays(tmp_path / f"run{index}", step)
        theirs = saved_arrays(folder / f"run{index}", results[index]["best_step"])
        assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    assert len({tuple(losses(tmp_path / f"run{index}")) for index in range(len(POINTS))}) == 3
    short = configs(tmp_path, train_steps=1, optimizer__clip_norm=2.0)
    for outcome in train_together(short, workdirs(tmp_path / "more"), shared=shared):
        assert outcome.result["compile_seconds"] == 0


def test_each_may_have_its_own_order_of_the_data_also_once_it_is_the_last(tmp_path):
    common = {"data__order_seed": None, "data__pack": "always", "train_steps": 6}
    made = configs(tmp_path, **common, eval_every_steps=3)[:2]
    pruners, shared = [lambda step, metrics: True, None], Shared()
    train_together(made, workdirs(tmp_path, number=2), prune=pruners, shared=shared)
    loop.train(made[1], str(tmp_path / "alone"))
    assert len(losses(tmp_path / "run0")) == 3
    assert close(losses(tmp_path / "run1"), losses(tmp_path / "alone"))
    padding = [
        [row.get("train/padding_fraction") for row in metrics_rows(tmp_path / f"run{index}")][:3]
        for index in range(2)
    ]
    assert padding[0] != padding[1]
    assert shared.get(("mapped step", 2), lambda: None).num_programs == 1


def test_what_is_lost_or_ended_in_one_does_not_touch_the_others(alone, tmp_path):
    _, expected, _ = alone
    made = configs(tmp_path, ({"optimizer__learning_rate": 1e30, "seed": 1}, *POINTS[1:]))
    pruners, shared = [None, lambda step, metrics: step >= 6, None], Shared()
    lost, pruned, whole = train_together(made, workdirs(tmp_path), prune=pruners, shared=shared)
    step = shared.get(("mapped step", len(POINTS)), lambda: None)
    assert step.num_programs == 1  # those that have ended do not cost the others a compilation
    assert isinstance(lost.error, Failure) and "the loss is" in str(lost.error)
    assert pruned.result["status"] == "pruned" and pruned.result["step"] == 6
    assert whole.result["status"] == "complete"
    assert close(losses(tmp_path / "run1"), expected[1][:6])
    assert close(losses(tmp_path / "run2"), expected[2])


def test_an_ended_group_leaves_the_program_and_none_of_its_states(tmp_path, monkeypatch):
    states_seen: list[weakref.ref] = []

    class Watched(MappedStep):
        def __call__(self, *arguments, **options):
            states, metrics = super().__call__(*arguments, **options)
            states_seen.extend(map(weakref.ref, jax.tree.leaves(states)))
            return states, metrics

    monkeypatch.setattr(together, "MappedStep", Watched)
    points = ({"seed": 1}, {"seed": 2, "optimizer__learning_rate": 1e30})  # one is lost
    made, shared = configs(tmp_path, points, train_steps=3), Shared()
    for group in range(3):
        whole, lost = train_together(made, workdirs(tmp_path / f"group{group}", 2), shared=shared)
        assert whole.result is not None and isinstance(lost.error, Failure)
        assert (whole.result["compile_seconds"] > 0) == (group == 0)
        # At once: the garbage collector does not see how much memory waits for it.
        assert states_seen and not any(array() is not None for array in states_seen)


def test_why_the_common_step_failed_is_told_to_each(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory.\nIn detail: …")

    monkeypatch.setattr(MappedStep, "__call__", fail)
    for outcome in train_together(configs(tmp_path)[:2], workdirs(tmp_path, number=2)):
        assert isinstance(outcome.error, RuntimeError)
        assert str(outcome.error) == (
            "the step of 2 runs at once failed: JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory."
        )


def send_signal() -> None:
    """Sends SIGTERM to this process, and waits until the main thread has noted it."""
    os.kill(os.getpid(), signal.SIGTERM)
    while not signal.getsignal(signal.SIGTERM).__self__.requested:  # type: ignore[union-attr]
        time.sleep(0.01)


def test_a_signal_saves_all_and_the_same_call_goes_on(alone, tmp_path):
    _, expected, _ = alone

    def stop(step, metrics):
        time.sleep(0.5)  # by now the others wait for this run to take the next step
        send_signal()
        return False

    made = configs(tmp_path)
    stopped = train_together(made, workdirs(tmp_path), prune=[stop, None, None])
    assert all(isinstance(outcome.error, Interrupted) for outcome in stopped)
    assert len({newest_step(workdir) for workdir in workdirs(tmp_path)}) == 1
    ended = train_together(made, workdirs(tmp_path))
    assert all(outcome.error is None for outcome in ended)
    for index in range(len(POINTS)):
        assert close(losses(tmp_path / f"run{index}"), expected[index])


def test_a_signal_after_the_last_step_stops_what_is_left_to_score(tmp_path):
    made = configs(tmp_path)[:2]
    at_the_end = threading.Barrier(2)  # no run is still to take a step when the signal comes

    def stop(step, metrics):
        if step == made[0].train_steps:
            at_the_end.wait(60)
            send_signal()
        return False

    stopped = train_together(made, workdirs(tmp_path, number=2), prune=[stop, stop])
    assert all(isinstance(outcome.error, Interrupted) for outcome in stopped)
    assert not list(tmp_path.glob("run*/eval/test-*"))
    ended = train_together(made, workdirs(tmp_path, number=2))
    assert [outcome.result["status"] for outcome in ended] == ["complete"] * 2


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        ({"model__dim": 16}, {"model__dim": 32}, "model.dim"),
        ({"model__dropout_rate": 0.0}, {"model__dropout_rate": 0.1}, "model.dropout_rate"),
        ({"optimizer__schedule": "cosine"}, {"optimizer__schedule": "constant"}, "schedule"),
        ({"data__pack": "never", "data__order_seed": 1}, {"data__pack": "never"}, "order_seed"),
        ({"parallelism": "pmap"}, {"parallelism": "pmap"}, "parallelism"),
    ],
)
def test_runs_that_need_programs_of_their_own_are_refused_by_key(tmp_path, first, second, key):
    with pytest.raises(UserError, match=key):
        check_alike(configs(tmp_path, (first, second)))


def test_runs_at_different_steps_are_refused(alone, tmp_path):
    made = configs(tmp_path)[:2]
    loop.train(made[0], str(tmp_path / "run0"))
    with pytest.raises(UserError, match=r"same step: .*run0 at 12, .*run1 at 0"):
        train_together(made, workdirs(tmp_path, number=2))


QUICK = ("sliding_window", "rnn")


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in variants.names()
        if {"bidirectional", "causal"} & variants.get(name).MODES
    ],
)
def test_every_variant_trains_at_once(tmp_path, name):
    own: dict = {"data__pack": "auto", "spec": f"variant={name}"}
    own |= {f"model__attention__{key}": value for key, value in small_options(name)}
    compare_with_alone(tmp_path, **own)


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [
        {"model__attention__num_kv_heads": 1},
        {"model__attention__softcap": 2.0},
        {"model__attention__qk_norm": "rms"},
        *({"model__position": name} for name in ("t5", "shaw", "alibi", "learned", "floater")),
        # As many programs as there are lengths of rows.
        {"data__pack": "never"},
        {"data__pack": "always", "data__order_seed": None},
    ],
    ids=str,
)
def test_every_option_trains_at_once(tmp_path, own):
    programs = compare_with_alone(tmp_path, **own)
    assert programs > 1 if own.get("data__pack") == "never" else programs == 1


def compare_with_alone(tmp_path, **own) -> int:
    """Trains two runs at once, the second alone as well; returns how many programs both took."""
    points = ({"seed": 1}, {"seed": 2, "optimizer__learning_rate": 1e-3})
    made, shared = configs(tmp_path, points, **{"train_steps": 4, **own}), Shared()
    outcomes = train_together(made, workdirs(tmp_path, number=2), shared=shared)
    assert [outcome.error for outcome in outcomes] == [None, None]
    loop.train(made[1], str(tmp_path / "alone"))
    assert close(losses(tmp_path / "run1"), losses(tmp_path / "alone"))
    return shared.get(("mapped step", 2), lambda: None).num_programs


@pytest.mark.slow
def test_fifty_steps_of_three_seeds_are_what_they_are_alone(tmp_path):
    """The score of each moves by less than what lies between those of the seeds."""
    more = {"train_steps": 50, "eval_every_steps": 50, "checkpoint_every_steps": 50}
    made = configs(tmp_path, tuple({"seed": seed} for seed in (1, 2, 3)), **more)
    outcomes = train_together(made, workdirs(tmp_path))
    scores, expected = [], []
    for index, (config, outcome) in enumerate(zip(made, outcomes, strict=True)):
        result = loop.train(config, str(tmp_path / f"alone{index}"))
        found, alone = losses(tmp_path / f"run{index}"), losses(tmp_path / f"alone{index}")
        assert len(found) == 50 and close(found, alone)
        scores.append(outcome.result["eval"])
        expected.append(result["eval"])
    for name in ("accuracy", "loss"):
        values = [one[name] for one in expected]
        spread = max(values) - min(values)
        for one, other in zip(scores, expected, strict=True):
            assert abs(one[name] - other[name]) <= spread and spread > 0
