"""Sweeps in processes of their own: stopped, killed, and several at once on the same trials."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from support.fake_training import write_recipe
from support.sweep_checks import check_whole, rows, statuses

DRIVER = Path(__file__).parents[1] / "support" / "fake_training.py"


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
