"""Trials that Optuna chooses: as many as wanted, reproducible, told once, pruned by halving."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from support import fake_training

from attention.configuration.search_space import Choice, Halving, Real, SearchSpace, Whole
from attention.sweeping import search as searching
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.plan import Sweep
from attention.sweeping.search import Search
from attention.sweeping.standing import Standing

SPACE = {
    "rate": Real(1e-3, 1.0, log=True),
    "steps": Whole(1, 9, step=2),
    "dtype": Choice("float32", "bfloat16"),
}
Make = Callable[..., Search]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a search; those with the same name share a study, as workers do."""
    recipe = fake_training.write_recipe(tmp_path, "return []")
    storage = optuna.storages.InMemoryStorage()

    def make_search(name: str = "s", *, wanted: int = 4, **space: Any) -> Search:
        made = SearchSpace(**{"parameters": SPACE, "sampler": "random", **space})
        sweep = Sweep(str(recipe), (), space=made)
        return Search(storage, name, sweep, SweepDirectory(tmp_path / "s"), wanted=wanted)

    return make_search


def ask_all(*searches: Search) -> list[dict]:
    points = []
    while any(trials := [search.ask() for search in searches]):
        points += [trial.point for trial in trials if trial]
    return points


def states(search: Search) -> list[str]:
    return [each.state.name for each in search._study.get_trials()]


def done(metric: float) -> Standing:
    return Standing("complete", False, metric, "accuracy", 1)


def test_values_lie_in_their_ranges_and_do_not_depend_on_who_asks(make: Make) -> None:
    alone = ask_all(make("one", wanted=9))
    together = ask_all(make("two", wanted=9), make("two", wanted=9))
    assert len(alone) == 9 and alone == together
    assert ask_all(make("three", wanted=9, seed=1)) != alone
    assert {point["steps"] for point in alone} <= {1, 3, 5, 7, 9}
    assert all(1e-3 <= point["rate"] <= 1.0 for point in alone)
    assert len({point["rate"] for point in alone}) == 9
    assert {point["dtype"] for point in alone} == {"float32", "bfloat16"}


def test_there_are_never_more_than_wanted_but_more_may_be_wanted_later(make: Make) -> None:
    search = make(wanted=3)
    assert len(ask_all(search, make(wanted=3), make(wanted=3))) == 3
    assert len(search.known().trials) == 3 and search.known().left == 0
    assert make(wanted=5).known().left == 2 and len(ask_all(make(wanted=5))) == 2


def test_a_choice_that_a_dead_process_left_open_is_made_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = make(wanted=2)
    search._study.ask()  # and then it dies
    assert search.known() == ((), 2) and len(ask_all(search)) == 1
    monkeypatch.setattr(searching, "_CHOOSING", datetime.timedelta(seconds=1))
    time.sleep(1.1)
    assert len(ask_all(search)) == 1 and search.known().left == 0
    assert states(search).count("FAIL") == 1


def test_who_was_too_slow_to_choose_gives_way(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    search, other = make(wanted=1), make(wanted=1)
    monkeypatch.setattr(searching, "_CHOOSING", datetime.timedelta(0))

    def sleep_and_choose(space: SearchSpace, number: int) -> Any:
        other.known()
        return optuna.samplers.RandomSampler()

    monkeypatch.setattr(searching, "_sampler", sleep_and_choose)
    assert search.ask() is None and states(search) == ["FAIL"]


def test_of_two_who_choose_at_once_the_later_gives_way(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, other = make(wanted=1), make(wanted=1)
    assert search.ask()
    look, looks = other._slots, []

    def look_too_early() -> list:
        looks.append(1)
        return look() if len(looks) > 1 else []

    monkeypatch.setattr(other, "_slots", look_too_early)
    assert other.ask() is None and states(search) == ["RUNNING", "FAIL"]
    assert len(search.known().trials) == 1


def test_arguments_are_searched_too(make: Make) -> None:
    space = {"arg.size": Choice("tiny"), "rate": Real(0.5, 0.5)}
    (point,) = ask_all(make(wanted=1, parameters=space))
    assert point == {"arg": "size=tiny", "rate": 0.5}


def test_what_has_ended_is_told_once(make: Make) -> None:
    search = make()
    a, b, c, d = (search.ask() for _ in range(4))
    assert a and b and c and d
    standings = {
        a.name: done(0.5),
        b.name: Standing("pruned", False, 0.1, "accuracy", 1),
        c.name: Standing("failed", False, error="loss"),
        d.name: Standing("failed", True, error="will be tried again"),
    }
    for _ in range(2):
        search.settle(standings)
    assert states(search) == ["COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert search._study.best_value == 0.5 and search.known().left == 0


def test_one_that_failed_and_is_complete_later_counts_after_all(make: Make) -> None:
    search = make(wanted=1)
    trial = search.ask()
    assert trial
    search.settle({trial.name: Standing("failed", False, error="crash")})
    for _ in range(2):
        search.settle({trial.name: done(0.75)})
    assert states(search) == ["FAIL", "COMPLETE"]
    assert search._study.best_trial.params == search._study.get_trials()[0].params
    assert search.known().left == 0 and len(search.known().trials) == 1


def test_the_same_point_twice_is_one_trial_and_told_twice(make: Make) -> None:
    search = make(wanted=5, parameters={"dtype": Choice("float32")})
    assert len(ask_all(search)) == 5
    (trial,) = search.known().trials
    search.settle({trial.name: done(0.5)})
    assert states(search) == ["COMPLETE"] * 5


def test_a_refused_config_is_told_as_failed(make: Make) -> None:
    search = make(wanted=1, parameters={"rat": Choice(1.0)})
    trial = search.ask()
    assert trial and trial.config_hash is None and "rate" in trial.error
    search.settle({trial.name: Standing("failed", False, error=trial.error)})
    assert states(search) == ["FAIL"]


def test_the_estimator_learns_where_it_is_good(make: Make) -> None:
    search = make(
        wanted=40, sampler="tpe", startup=8, parameters={"rate": Real(1e-4, 1.0, log=True)}
    )
    rates = []
    while trial := search.ask():
        rates.append(trial.point["rate"])
        search.settle({trial.name: done(-abs(trial.point["rate"] - 0.01))})
    near = [0.003 < rate < 0.03 for rate in rates]
    assert sum(near[20:]) > 1.5 * 20 / 4  # by chance a quarter of them


def test_successive_halving_stops_all_but_the_best_third(make: Make, tmp_path: Path) -> None:
    search = make(wanted=9, pruning=Halving(first=1, factor=3))
    ended = {}
    for score in (0.9, 0.1, 0.2, 0.95, 0.3):
        trial = search.ask()
        assert trial
        run = SweepDirectory(tmp_path / "s").run(trial)
        run.create()
        prune = search.pruner(trial)
        ended[score] = 9
        for evaluation in range(1, 10):
            step = 10 * evaluation
            with run.metrics_file.open("a") as file:
                file.write(f'{{"step": {step}, "eval/accuracy": {score}}}\n')
            run.write_result({"eval": {"accuracy": score, "loss": 1.0}})
            if prune(step, {"loss": 1.0, "accuracy": score}):
                ended[score] = evaluation
                break
    assert ended == {0.9: 9, 0.1: 1, 0.2: 1, 0.95: 9, 0.3: 1}
    assert make("other").pruner(trial) is None


def test_one_that_counts_as_failed_is_not_pruned_when_it_is_tried_again(
    make: Make, tmp_path: Path
) -> None:
    search = make(wanted=1, pruning=Halving())
    trial = search.ask()
    assert trial
    run = SweepDirectory(tmp_path / "s").run(trial)
    run.create()
    run.write_result({"eval": {"accuracy": 0.5}})
    prune = search.pruner(trial)
    search.settle({trial.name: Standing("failed", False, error="crash")})  # by another command
    assert prune(10, {"accuracy": 0.5}) is False
    assert search.pruner(trial) is None
