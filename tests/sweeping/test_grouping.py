"""Which trials a worker takes at once, without training any."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention.errors import UserError
from attention.sweeping import sweep as sweeping
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.grouping import Groups
from attention.sweeping.ledger import new_try
from attention.sweeping.plan import read_sweep
from attention.sweeping.running import Job
from attention.sweeping.setting import Scene, open_scene
from attention.training import vectorize, vectorize_width
from attention.training.vectorize_width import Width

pytestmark = pytest.mark.fast

SEARCH = """
from attention.configuration.search_space import Real, SearchSpace
from configs.pos_tagging import get_config

def sweep():
    space = {"optimizer.learning_rate": Real(1e-4, 1e-2, log=True)}
    return SearchSpace(space, trials=6, sampler="random")
"""
POINTS = """
from configs.pos_tagging import get_config

def sweep():
    for rate in range(1, 7):
        yield {"optimizer.learning_rate": rate / 1000}
"""
OpenScene = Callable[[str], Scene]


@pytest.fixture
def opened(tmp_path: Path) -> OpenScene:
    """Opens the sweep of a recipe."""

    def open_sweep(text: str) -> Scene:
        recipe = tmp_path / "recipe.py"
        recipe.write_text(text)
        swept = read_sweep(f"{recipe}:size=tiny", ())
        setting = sweeping.make_setting(swept, tmp_path / "s", sweeping.Selection())
        SweepDirectory(setting.workdir).create(swept, storage=None)
        return open_scene(setting, swept)

    return open_sweep


def complete(scene: Scene, jobs: list[Job]) -> None:
    """Ends trials as a run does."""
    for job in jobs:
        run = scene.directory.run(job.trial)
        run.create()
        run.write_result({"status": "complete", "eval": {"accuracy": 0.5}})
        begun = new_try()
        job.claim.end(dataclasses.replace(begun, status="complete", ended=begun.started + 1))
    scene.board.settle({job.trial.name: scene.standings.of(job.trial) for job in jobs})


def run_all(scene: Scene, at_once: str) -> list[tuple[int, int]]:
    """Takes groups until none is left: the size of each, and how many trials were known then."""
    groups = Groups(scene, vectorize=at_once, shared=object())
    taken = []
    while jobs := groups.next():
        taken.append((len(jobs), len(scene.board.known().trials)))
        complete(scene, jobs)
    return taken


class Measured:
    """In place of a measurement: notes what it was asked, and gives or raises what it is told."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[int] = []
        self.own_batches: list[bool] = []
        self.before: Callable[[], None] = lambda: None

    def __call__(self, config: Any, *, most: int, own_batches: bool, shared: Any) -> Any:
        self.before()
        self.asked.append(most)
        self.own_batches.append(own_batches)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_search_keeps_its_groups_full_and_chooses_no_earlier_than_it_must(
    opened: OpenScene,
) -> None:
    assert run_all(opened(SEARCH), "2") == [(2, 2), (2, 4), (2, 6)]


def test_a_search_is_measured_before_more_points_are_chosen(
    opened: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, known = opened(SEARCH), []
    measured = Measured(Width(2))
    measured.before = lambda: known.append(len(scene.board.known().trials))
    monkeypatch.setattr(vectorize_width, "choose_width", measured)
    assert run_all(scene, "auto") == [(2, 2), (2, 4), (2, 6)]
    assert known == [1] and measured.asked == [6]


def test_no_more_is_chosen_for_a_trial_that_stands_at_a_step_of_its_own(
    opened: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = opened(SEARCH)
    interrupted = scene.board.ask()
    assert interrupted is not None
    monkeypatch.setattr(vectorize, "newest_step", lambda path: 4 * (interrupted.name in path))
    assert run_all(scene, "3") == [(1, 1), (3, 4), (2, 6)]


def test_a_width_that_few_trials_allowed_is_measured_again_for_more(
    opened: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = opened(POINTS)
    two = [trial.name for trial in scene.board.known().trials[:2]]
    monkeypatch.setattr(vectorize, "newest_step", lambda path: 4 * path.endswith(tuple(two)))
    measured = Measured(Width(2, untried=4), Width(4))
    monkeypatch.setattr(vectorize_width, "choose_width", measured)
    assert [size for size, _ in run_all(scene, "auto")] == [2, 4]
    assert measured.asked == [2, 4]


@pytest.mark.parametrize(
    ("point", "own_batches"),
    [
        ('{"seed": seed, "data.pack": "always"}', True),
        ('{"seed": seed, "data.order_seed": 0}', False),
        ('{"optimizer.learning_rate": (1 + seed) / 1000}', False),
    ],
)
def test_what_is_measured_has_the_batches_that_the_trials_will_have(
    opened: OpenScene, monkeypatch: pytest.MonkeyPatch, point: str, own_batches: bool
) -> None:
    recipe = POINTS.replace("rate in", "seed in").replace(
        '{"optimizer.learning_rate": rate / 1000}', point
    )
    measured = Measured(Width(2))
    monkeypatch.setattr(vectorize_width, "choose_width", measured)
    assert run_all(opened(recipe), "auto")[0][0] == 2
    assert measured.own_batches == [own_batches]


def test_one_that_is_alone_says_nothing_of_the_rest(
    opened: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = opened(POINTS)
    alone = scene.board.known().trials[0].name
    monkeypatch.setattr(vectorize, "newest_step", lambda path: 4 * path.endswith(alone))
    measured = Measured(Width(2, untried=None))
    monkeypatch.setattr(vectorize_width, "choose_width", measured)
    assert [size for size, _ in run_all(scene, "auto")] == [1, 2, 2, 1]
    assert measured.asked == [5]


def test_where_measuring_fails_trials_run_alone_and_one_line_says_so(
    opened: OpenScene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    measured = Measured(UserError("no file\ndata.conllu"))
    monkeypatch.setattr(vectorize_width, "choose_width", measured)
    with caplog.at_level(logging.WARNING):
        assert [size for size, _ in run_all(opened(POINTS), "auto")] == 6 * [1]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("--vectorize=auto: ") and "UserError: no file data.conllu" in line


def test_trials_that_failed_only_at_once_run_alone_and_those_of_other_programs_do_not(
    opened: OpenScene, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = POINTS.replace("rate in range(1, 7)", "dim, rate in DIMS").replace(
        "rate / 1000}", 'rate / 1000, "model.dim": dim}'
    )
    scene = opened(f"DIMS = [(dim, rate) for dim in (32, 64) for rate in range(1, 5)]\n{recipe}")
    groups, sizes = Groups(scene, vectorize="2", shared=object()), []
    failed = dataclasses.replace(new_try(), status="failed", kind="together", error="no memory")
    with caplog.at_level(logging.WARNING):
        while jobs := groups.next():
            sizes.append(len(jobs))
            if len(sizes) == 1:
                for job in jobs:
                    job.claim.end(failed)
                groups.learn(jobs, [failed, failed])
            else:
                complete(scene, jobs)
                groups.learn(jobs, [dataclasses.replace(new_try(), status="complete")])
    assert sizes == [2, 1, 1, 1, 1, 2, 2]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("--vectorize=2: ") and "one at a time, as no memory" in line
