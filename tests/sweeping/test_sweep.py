"""Whole sweeps with a trainer that is quick: what is run, what is run again, and what is told."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.fake_training import write_recipe

from attention.errors import Failure, UserError
from attention.sweeping import sweep as sweeping
from attention.sweeping.closing import closing_words, raise_failure
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.ledger import FileClaim
from attention.sweeping.plan import read_sweep
from attention.sweeping.setting import open_scene
from attention.sweeping.sweep import Selection, make_setting
from attention.sweeping.workers import Workers

DRIVER = Path(__file__).parents[1] / "support" / "fake_training.py"


def rows(workdir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (workdir / "trials.jsonl").read_text().splitlines()]


def statuses(workdir: Path) -> Counter[str]:
    return Counter(row["status"] for row in rows(workdir))


def failure_of(recipe: Path, workdir: Path, seen: list) -> str:
    setting = make_setting(read_sweep(str(recipe), ()), workdir, Selection())
    with pytest.raises(Failure) as caught:
        raise_failure(setting, seen)
    return str(caught.value)


def check_whole(workdir: Path, *, trials: int, steps: int) -> None:
    """Each trial complete, once, with each of its steps taken exactly once."""
    found = rows(workdir)
    assert statuses(workdir) == {"complete": trials}
    assert len({row["config_hash"] for row in found}) == len(found) == trials
    assert {path.name for path in (workdir / "trials").iterdir() if path.is_dir()} == {
        row["config_hash"] for row in found
    }
    for row in found:
        lines = (workdir / "trials" / row["config_hash"] / "steps.txt").read_text().splitlines()
        assert [int(line.split()[0]) for line in lines] == list(range(1, steps + 1)), row


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


def start(recipe: Path, workdir: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(DRIVER), f"--config={recipe}", f"--workdir={workdir}", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_steps(workdir: Path, count: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if sum(len(p.read_text().split("\n")) for p in workdir.glob("trials/*/steps.txt")) > count:
            return
        time.sleep(0.02)
    raise AssertionError("no steps were taken")


def finish(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=120)
    return errors


STEPS = 40
SLOW = f"for n in range(4):\n    yield {{'seed': n, 'steps': {STEPS}, 'step_seconds': 0.05}}"


@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize("name", ["SIGINT", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path: Path, name: str) -> None:
    recipe, workdir = write_recipe(tmp_path, SLOW), tmp_path / "s"
    process = start(recipe, workdir, "--workers=2")
    wait_for_steps(workdir, 4)
    process.send_signal(getattr(signal, name))
    errors = finish(process)
    assert process.returncode == 130, errors
    assert f"stopped by {name}; the same command goes on" in errors and "Traceback" not in errors
    assert statuses(workdir)["interrupted"] and not statuses(workdir)["running"]
    process = start(recipe, workdir, "--workers=2")
    assert (finish(process), process.returncode)[1] == 0
    check_whole(workdir, trials=4, steps=STEPS)


@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize(
    ("hosts", "database"),
    [
        ("ss", False),
        pytest.param("ss", True, marks=pytest.mark.slow),
        pytest.param("ab", True, marks=pytest.mark.slow),  # hosts that share no folder
    ],
)
def test_two_sweeps_at_once_share_the_work(tmp_path: Path, hosts: str, database: bool) -> None:
    recipe, workdirs = write_recipe(tmp_path, SLOW), [tmp_path / host / "s" for host in hosts]
    storage = [f"--storage=sqlite:///{tmp_path}/s.db"] if database else []
    both = [start(recipe, workdir, "--workers=2", *storage) for workdir in workdirs]
    for process in both:
        errors = finish(process)
        assert process.returncode == 0, errors
    check_shared(sorted(set(workdirs)))


def check_shared(workdirs: list[Path]) -> None:
    """Each trial complete, begun once, in exactly one of the folders, and told of in each."""
    homes = Counter(
        path.name for each in workdirs for path in each.glob("trials/*") if path.is_dir()
    )
    assert len(homes) == 4 and set(homes.values()) == {1}
    for workdir in workdirs:
        assert {row["config_hash"] for row in rows(workdir)} == set(homes)
        assert statuses(workdir) == {"complete": 4}
        assert {row["attempts"] for row in rows(workdir)} == {1}
    for name in homes:
        (run,) = [each / "trials" / name for each in workdirs if (each / "trials" / name).exists()]
        steps = [int(line.split()[0]) for line in (run / "steps.txt").read_text().splitlines()]
        assert steps == list(range(1, STEPS + 1)), run
        # Not even begun by another, whom the lock of the run directory would send away.
        assert Path(f"{run}.log").read_text().count("train.py") == 1


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()] if children.exists() else []


@pytest.mark.usefixtures("trainer")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in /proc")
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_workers_lose_double_and_spoil_nothing(tmp_path: Path, kills: int) -> None:
    """Case 113: `kill -9` of workers, and now and then of the command itself, then once more."""
    chance, steps = random.Random(kills), 15 * kills  # more than is done before the last kill
    work = f"for n in range(4):\n    yield {{'seed': n, 'steps': {steps}, 'step_seconds': 0.05}}"
    recipe, workdir = write_recipe(tmp_path, work), tmp_path / "s"
    killed = 0
    while killed < kills:
        process = start(recipe, workdir, "--workers=2")
        while process.poll() is None and killed < kills:
            time.sleep(chance.uniform(0.2, 1.5))
            victims = workers_of(process)
            if victims and chance.random() < 0.8:
                os.kill(chance.choice(victims), signal.SIGKILL)
                killed += 1
            elif victims:
                break
        killed += process.poll() is None
        process.kill()
        finish(process)
        if statuses(workdir)["complete"] == 4:
            break
    process = start(recipe, workdir, "--workers=2")
    errors = finish(process)
    assert process.returncode == 0, errors
    check_whole(workdir, trials=4, steps=steps)
    assert killed >= kills


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
