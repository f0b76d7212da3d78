"""Whole sweeps with a trainer that is quick: what is run, what is run again, and what is told."""

from __future__ import annotations

import itertools
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from support.fake_training import write_recipe
from support.sweep_checks import check_whole, rows, statuses

from attention.errors import Failure, UserError
from attention.sweeping import sweep as sweeping
from attention.sweeping.closing import closing_words, raise_failure
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.ledger import FileClaim
from attention.sweeping.plan import read_sweep
from attention.sweeping.setting import open_scene
from attention.sweeping.sweep import Selection, make_setting
from attention.sweeping.workers import Workers


def failure_of(recipe: Path, workdir: Path, seen: list) -> str:
    setting = make_setting(read_sweep(str(recipe), ()), workdir, Selection())
    with pytest.raises(Failure) as caught:
        raise_failure(setting, seen)
    return str(caught.value)


def test_a_grid_is_run_once_and_a_failed_point_again(tmp_path: Path, run_here: Any) -> None:
    """Case 114: 2 x 2 with a point that fails; then it is mended; then nothing is left to do."""
    recipe = write_recipe(
        tmp_path,
        "from attention.configuration.points import grid\n"
        "return grid({'rate': (1.0, 2.0), 'behaviour': ('good', 'crash once')})",
    )
    workdir = tmp_path / "s"
    seen = run_here(recipe, workdir, retries=0)
    assert statuses(workdir) == {"complete": 2, "failed": 2}
    text = failure_of(recipe, workdir, seen)
    assert "2 of 4 trials failed: trial 1 (RuntimeError: out of luck; log: " in text
    for row in rows(workdir):
        log = Path(row["log"]).read_text()
        assert row["command"].split(" --config=")[0] in log
        assert ("Traceback" in log) == (row["status"] == "failed")
    before = {row["trial"]: row["attempts"] for row in rows(workdir)}
    assert before == {0: 1, 1: 1, 2: 1, 3: 1}

    run_here(recipe, workdir, retries=0)
    check_whole(workdir, trials=4, steps=2)
    assert {row["trial"]: row["attempts"] for row in rows(workdir)} == {0: 1, 1: 2, 2: 1, 3: 2}

    files = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file()}
    seen = run_here(recipe, workdir)
    again = {path: path.stat().st_mtime_ns for path in workdir.rglob("*") if path.is_file()}
    assert [str(p) for p in again if again[p] != files.get(p)] == [str(workdir / "sweep.json")]
    words = closing_words(make_setting(read_sweep(str(recipe), ()), workdir, Selection()), seen)
    assert "4 of 4 trials done" in words and "best: trial 2, accuracy 2.0000 on dev" in words
    assert "--config.rate=2.0" in words and f"compare.py {workdir}" in words


def test_each_way_to_fail_is_recorded_and_the_rest_goes_on(tmp_path: Path, run_here: Any) -> None:
    """Cases 116 and 117: a refused point, wrong input, divergence, a crash."""
    ways = ("good", "wrong file", "diverge", "crash")
    recipe = write_recipe(
        tmp_path, f"yield {{'rate': 'x'}}\nfor way in {ways}:\n    yield {{'behaviour': way}}"
    )
    workdir = tmp_path / "s"
    seen = run_here(recipe, workdir, retries=1)
    found = {row["trial"]: row for row in rows(workdir)}
    assert {n: (row["status"], row["attempts"]) for n, row in found.items()} == {
        0: ("failed", 0),
        1: ("complete", 1),
        2: ("failed", 1),
        3: ("failed", 1),
        4: ("failed", 2),
    }
    for number, words in {
        0: "expected a float",
        2: "no file data.conllu",
        3: "step 1: the loss is nan",
        4: "RuntimeError: out of luck",
    }.items():
        assert words in found[number]["error"]
        assert Path(found[number]["log"]).is_file()
        assert found[number]["log"] in failure_of(recipe, workdir, seen)
    assert found[0]["config_hash"] is None and found[0]["workdir"] is None


def test_a_crash_is_tried_again_at_once_but_not_for_ever(tmp_path: Path, run_sweep: Any) -> None:
    ways = ("crash once", "die once", "die")
    recipe = write_recipe(tmp_path, f"for way in {ways}:\n    yield {{'behaviour': way}}")
    run_sweep(recipe, tmp_path / "s")
    found = rows(tmp_path / "s")
    assert [row["status"] for row in found] == ["complete", "complete", "failed"]
    assert [row["attempts"] for row in found] == [2, 2, 2] and "killed, 2 times" in found[2][
        "error"
    ]


def test_looking_costs_little(
    tmp_path: Path, run_sweep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are written where something has changed, and long looks are far apart."""
    looks = {"look": 0, "record": 0}

    def counted(name: str) -> None:
        right = getattr(sweeping, name)

        def call(*arguments: Any) -> Any:
            looks[name] += 1
            return right(*arguments)

        monkeypatch.setattr(sweeping, name, call)

    counted("look")
    counted("record")
    run_sweep(write_recipe(tmp_path, "yield {'steps': 40, 'step_seconds': 0.05}"), tmp_path / "s")
    assert statuses(tmp_path / "s") == {"complete": 1}
    # Planned, running, complete; a look may also fall between a claim, or a result, and its record.
    assert looks["record"] <= 5 < looks["look"]

    monkeypatch.setattr(sweeping, "LOOK_SECONDS", 0.5)
    assert [sweeping.looks_apart(seconds) for seconds in (0.0, 0.01, 0.04, 9.0)] == [1, 2, 8, 20]


def test_the_first_so_many_or_the_one_of_an_index(tmp_path: Path, run_here: Any) -> None:
    recipe = write_recipe(tmp_path, "for n in range(5):\n    yield {'seed': n}")
    workdir = tmp_path / "s"
    run_here(recipe, workdir, selection=(None, 3))
    assert [row["trial"] for row in rows(workdir)] == [3]
    run_here(recipe, workdir, selection=(2,))
    assert [row["trial"] for row in rows(workdir)] == [0, 1, 3]
    write_recipe(tmp_path, "for n in (1, 3, 7):\n    yield {'seed': n}")
    run_here(recipe, workdir, selection=(1,))
    assert [(row["trial"], row["overrides"]["seed"]) for row in rows(workdir)] == [(0, 1), (1, 3)]
    assert all(row["attempts"] == 1 for row in rows(workdir))


@pytest.mark.parametrize(
    ("selection", "more", "message"),
    [
        ((None, 5), {}, "--index=5: expected 0 to 4"),
        ((0,), {}, "--trials=0: expected 1 or more"),
        ((1, 1), {}, "exclude each other"),
        ((), {"retries": -1}, "--retries=-1"),
        ((), {"workers": 0}, "--workers=0"),
    ],
)
def test_wrong_flags_are_told_before_anything_is_made(
    tmp_path: Path, run_here: Any, selection: tuple, more: dict, message: str
) -> None:
    recipe = write_recipe(tmp_path, "for n in range(5):\n    yield {'seed': n}")
    with pytest.raises(UserError, match=message):
        run_here(recipe, tmp_path / "s", selection=selection, **more)
    assert not (tmp_path / "s").exists()


def test_a_folder_with_something_else_is_refused(tmp_path: Path, run_here: Any) -> None:
    recipe = write_recipe(tmp_path / "r", "yield {}")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"holds other things \(thesis.tex\) and no sweep"):
        run_here(recipe, tmp_path / "s")
    run_here(recipe, tmp_path / "t")
    with pytest.raises(UserError, match=r"holds a sweep with flags=\[\], now \[\['seed', '1'\]\]"):
        run_here(recipe, tmp_path / "t", flags=(("seed", "1"),))


def test_workers_that_never_get_anywhere_are_given_up(tmp_path: Path, run_sweep: Any, monkeypatch):
    recipe = write_recipe(tmp_path, "yield {}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "nothing"))
    monkeypatch.setattr("attention.sweeping.workers.SCRIPT", tmp_path / "no_script.py")
    with pytest.raises(Failure, match=r"before they begin a trial: see .*workers.log"):
        run_sweep(recipe, tmp_path / "s")


def test_no_worker_is_started_for_what_others_run_until_it_becomes_free(
    tmp_path: Path, run_sweep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, workdir = write_recipe(tmp_path, "yield {'seed': 1}"), tmp_path / "s"
    swept = read_sweep(str(recipe), ())
    setting = make_setting(swept, workdir, Selection())
    SweepDirectory(workdir).create(swept, storage=None)
    scene = open_scene(setting, swept)
    (trial,) = scene.board.known().trials
    claim = scene.ledger.claim(trial.name, wanted=lambda: True)
    assert isinstance(claim, FileClaim)
    started: list[str] = []  # how it stood then
    look, start_worker, looks = sweeping.look, Workers._start, itertools.count()

    def look_and_die_at_last(scene: Any) -> Any:
        if next(looks) == 30:
            claim._file.close()  # as the system does when its process is killed
        return look(scene)

    def note_and_start(*arguments: Any) -> None:
        started.append(scene.standings.of(trial).status)
        start_worker(*arguments)

    monkeypatch.setattr(sweeping, "look", look_and_die_at_last)
    monkeypatch.setattr(Workers, "_start", note_and_start)
    run_sweep(recipe, workdir, workers=2)
    assert started == ["interrupted"] and statuses(workdir) == {"complete": 1}


def test_workers_are_kept_for_what_is_to_do_and_what_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "idle.py"
    script.write_text("import sys; sys.stdin.read()")
    monkeypatch.setattr("attention.sweeping.workers.SCRIPT", script)
    recipe = write_recipe(tmp_path, "yield {}")
    setting = make_setting(read_sweep(str(recipe), ()), tmp_path, Selection())
    with Workers(4, setting, SweepDirectory(tmp_path)) as pool:
        pool.keep(1, running=[], attempts=0)
        (process,) = pool._running
        here, there = (socket.gethostname(), process.pid), ("another", process.pid)
        sizes = []
        for to_do, running in [(0, 4 * [here]), (1, [there]), (1, 4 * [here]), (9, [])]:
            pool.keep(to_do, running=running, attempts=0)
            sizes.append(len(pool))
    assert sizes == [1, 1, 2, 4]


SEARCH = """
from attention.configuration.search_space import Choice, Halving, Real, SearchSpace
space = {"rate": Real(0.1, 10.0, log=True), "dtype": Choice("float32", "bfloat16")}
return SearchSpace(space, trials=6, startup=3, pruning=Halving(), sampler="tpe")
"""


@pytest.mark.parametrize("database", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_search_runs_as_many_as_wanted_and_tells_how_each_ended(
    tmp_path: Path, run_here: Any, database: bool
) -> None:
    import optuna

    recipe, workdir = write_recipe(tmp_path, SEARCH), tmp_path / "s"
    storage = f"sqlite:///{tmp_path}/s.db" if database else None
    flags = (("steps", "4"),)
    run_here(recipe, workdir, workers=2, flags=flags, storage=storage)
    run_here(recipe, workdir, selection=(7,), flags=flags, storage=storage)
    found = statuses(workdir)
    assert found["complete"] + found["pruned"] == 7 and found["complete"] and found["pruned"]
    url = storage or f"sqlite:///{workdir}/search.db"
    (name,) = [n for n in optuna.study.get_all_study_names(url) if "/" not in n]
    trials = optuna.load_study(study_name=name, storage=url).trials
    told = {each.number: (each.state.name.lower(), each.value) for each in trials}
    assert told == {row["trial"]: (row["status"], row["metric"]) for row in rows(workdir)}
    space = json.loads((workdir / "sweep.json").read_text())["space"]
    assert space["parameters"]["rate"] == {"kind": "real", "low": 0.1, "high": 10.0, "log": True}


def test_a_failed_trial_of_a_search_with_pruning_is_run_again(
    tmp_path: Path, run_here: Any
) -> None:
    search = """
from attention.configuration.search_space import Choice, Halving, SearchSpace
return SearchSpace({"behaviour": Choice("crash once")}, trials=1, pruning=Halving())
"""
    recipe, workdir = write_recipe(tmp_path, search), tmp_path / "s"
    for status in ("failed", "complete"):
        run_here(recipe, workdir, retries=0)
        assert statuses(workdir) == {status: 1}, rows(workdir)[0]["error"]


def test_a_point_that_a_search_draws_and_that_is_refused_has_its_log(
    tmp_path: Path, run_here: Any
) -> None:
    search = """
from attention.configuration.search_space import Choice, SearchSpace
return SearchSpace({"rate": Choice("x")}, trials=1)
"""
    recipe, workdir = write_recipe(tmp_path, search), tmp_path / "s"
    seen = run_here(recipe, workdir)
    (row,) = rows(workdir)
    assert row["log"] in failure_of(recipe, workdir, seen)
    assert Path(row["log"]).read_text() == f"{row['command']}\n{row['error']}\n"
    assert "expected a float" in row["error"]
    written = Path(row["log"]).stat().st_mtime_ns
    run_here(recipe, workdir)
    assert Path(row["log"]).stat().st_mtime_ns == written


def test_a_renamed_folder_goes_on_with_its_search(tmp_path: Path, run_here: Any) -> None:
    import optuna

    recipe, flags = write_recipe(tmp_path, SEARCH), (("steps", "1"),)
    run_here(recipe, tmp_path / "s", selection=(2,), flags=flags)
    (tmp_path / "s").rename(tmp_path / "t")
    run_here(recipe, tmp_path / "t", selection=(3,), flags=flags)
    (study,) = optuna.get_all_study_summaries(f"sqlite:///{tmp_path}/t/search.db")
    assert study.n_trials == 3 and statuses(tmp_path / "t") == {"complete": 3}
