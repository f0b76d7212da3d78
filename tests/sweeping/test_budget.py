"""Budgets: what is solved, how often, where it is written down, and what is refused."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from attention.errors import UserError
from attention.sweeping import budget, budget_process
from attention.sweeping.closing import closing_words
from attention.sweeping.plan import Sweep, plan, read_sweep
from attention.sweeping.sweep import Selection, make_setting, run_sweep
from attention.training import costs as training_costs

REPOSITORY = Path(__file__).parents[2]
RECIPE = """
from ml_collections import ConfigDict
from attention.configuration.arguments import parse_argument
from attention.configuration.budget import budgeted
from attention.configuration.fields import optional
from attention.configuration.points import grid

def get_config(arg=""):
    config = ConfigDict()
    config.task = "fake"
    config.seed = int(parse_argument(arg).get("seed", 0))
    config.train_steps = optional(None, int)
    config.train_epochs = optional(2.0, float)
    config.optimizer = ConfigDict({"learning_rate": 1.0})
    config.model = ConfigDict({"mlp_dim": 100, "own": 0, "slowness": 1.0, "dim": 16})
    config.model.num_heads = 2
    return config

def sweep():
    return BODY
"""
VARIANTS = "grid({'model.own': (0, 300), 'arg.seed': (0, 1)})"
TOKENS = (3, 5, 4)  # of the batches, again and again: their shapes


class FakeCosts:
    """A model of `own` + 10·mlp_dim parameters, all of them matrices; an epoch has 50 steps."""

    def __init__(self, *_: Any) -> None:
        self.asked: Counter[str] = Counter()

    def parameters(self, config: Any) -> int:
        self.asked["parameters"] += 1
        return config.model.own + 10 * config.model.mlp_dim

    def flops(self, config: Any, batches: Mapping[int, int]) -> int:
        self.asked["flops"] += 1
        tokens = sum(shape * number for shape, number in batches.items())
        return 6 * (config.model.own + 10 * config.model.mlp_dim) * tokens

    def total_steps(self, config: Any) -> int:
        return config.train_steps or int(50 * config.train_epochs)

    def shapes(self, config: Any) -> Iterator[int]:
        endless = itertools.cycle(TOKENS)
        return (
            endless if config.train_steps else itertools.islice(endless, self.total_steps(config))
        )

    def seconds_per_step(self, config: Any) -> float:
        self.asked["seconds"] += 1
        time.sleep(0.01)
        return 0.1 * config.model.slowness


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> FakeCosts:
    """Stands in for those of models, in this process alone."""
    fake = FakeCosts()
    monkeypatch.setattr(training_costs, "Costs", lambda folder: fake)
    monkeypatch.setattr(training_costs, "where_measured", lambda: "this machine")
    monkeypatch.setattr(budget, "ask_another", lambda request, workers: ask_here(request))
    return fake


def ask_here(request: dict[str, Any]) -> dict[str, Any]:
    return budget_process.answer(json.loads(json.dumps(request)))


def write(folder: Path, body: str) -> str:
    path = folder / "recipe.py"
    path.write_text(RECIPE.replace("BODY", body), encoding="utf-8")
    return str(path)


def solved(sweep: Sweep) -> list[Any]:
    assert sweep.budget is not None
    return [point.get(sweep.budget.solve) for point in sweep.points]


@pytest.mark.fast
@pytest.mark.parametrize(("points", "warns"), [("[{'seed': 1}]", True), (VARIANTS, False)])
def test_a_budget_of_one_shape_is_said_to_change_nothing(
    tmp_path: Path, costs: FakeCosts, caplog: pytest.LogCaptureFixture, points: str, warns: bool
) -> None:
    budget.solve_budget(read_sweep(write(tmp_path, points), (), "params"), tmp_path / "s")
    assert ("makes nothing equal here" in caplog.text) == warns


@pytest.mark.fast
def test_parameters_are_equal_and_each_shape_is_solved_once(
    tmp_path: Path, costs: FakeCosts
) -> None:
    points = (
        "grid({'model.own': (0, 300), 'arg.seed': (0, 1), 'optimizer.learning_rate': (1., 2.)})"
    )
    spec = write(tmp_path, f"budgeted({points})")
    sweep = budget.solve_budget(read_sweep(spec, ()), tmp_path / "s")
    assert sweep.amount == 1000
    assert solved(sweep) == [100] * 4 + [70] * 4
    once = costs.asked["parameters"]
    trials = plan(sweep, range(8))
    assert [costs.parameters(trial.load()) for trial in trials] == [1000] * 8
    assert ("model.mlp_dim", "70") in trials[7].overrides
    assert trials[7].command("w").endswith(" --config.model.mlp_dim=70")

    fewer = write(tmp_path, f"budgeted({VARIANTS})")
    costs.asked.clear()
    budget.solve_budget(read_sweep(fewer, ()), tmp_path / "t")
    assert costs.asked["parameters"] == once


@pytest.mark.fast
def test_what_is_not_to_run_is_not_solved(
    tmp_path: Path, costs: FakeCosts, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = read_sweep(write(tmp_path, f"budgeted({VARIANTS})"), ())
    first = budget.solve_budget(sweep, tmp_path / "s", numbers=[0, 1])
    assert solved(first) == [100, 100, None, None] and not first.refused
    assert "makes nothing equal" not in caplog.text  # that is not known yet
    assert solved(budget.solve_budget(sweep, tmp_path / "s", numbers=[2])) == [100, 100, 70, None]
    assert solved(budget.solve_budget(sweep, tmp_path / "s")) == [100, 100, 70, 70]


@pytest.mark.fast
def test_the_reference_is_the_point_named_with_the_flags(tmp_path: Path, costs: FakeCosts) -> None:
    spec = write(tmp_path, f"budgeted({VARIANTS}, like={{'model.own': 300}})")
    sweep = budget.solve_budget(read_sweep(spec, [("model.mlp_dim", "50")]), tmp_path / "s")
    assert sweep.amount == 800 and solved(sweep) == [80, 80, 50, 50]


@pytest.mark.fast
def test_a_point_that_cannot_have_the_budget_is_a_refused_trial(
    tmp_path: Path, costs: FakeCosts
) -> None:
    spec = write(tmp_path, "budgeted(grid({'model.own': (0, 996, 2000)}))")
    sweep = budget.solve_budget(read_sweep(spec, ()), tmp_path / "s")
    good, near, never = plan(sweep, range(3))
    assert good.config_hash and near.config_hash and never.config_hash is None
    assert dict(near.overrides)["model.mlp_dim"] == "1"  # 1006 of 1000
    assert "model.own=2000 cannot have the budget of 1,000 parameters" in never.error
    assert "model.mlp_dim=1 gives 2,010" in never.error

    spec = write(tmp_path, "budgeted([{}], solve='model.dim')")
    with pytest.raises(UserError, match=r"model.own=0 .* model.dim=16 gives"):
        sweep = budget.solve_budget(coarse(spec, costs), tmp_path / "t")
        plan(sweep, [0])


def coarse(spec: str, costs: FakeCosts) -> Sweep:
    """A sweep over one point whose widths are 4 apart and give 160 of the 100, or 40."""
    costs.parameters = lambda config: config.model.own + config.model.dim**2  # type: ignore
    path = Path(spec)
    path.write_text(path.read_text().replace("[{}]", "[{'model.own': 0}], like={'model.own': 34}"))
    return read_sweep(spec, ())


@pytest.mark.fast
@pytest.mark.parametrize(
    ("body", "flag", "key"),
    [
        ("budgeted([{'seed': 1, 'model.mlp_dim': 3}])", None, "model.mlp_dim, but it is what"),
        ("budgeted([{'model': {'mlp_dim': 3}}])", None, "model.mlp_dim, but it is what"),
        ("budgeted([{}, {'train_steps': 3}], budget='flops')", None, "train_steps"),
        ("[{'train_epochs': 3.0}]", "time", "train_epochs, but budget=time solves train_steps"),
    ],
)
def test_a_point_that_sets_what_is_solved_is_refused(
    tmp_path: Path, body: str, flag: str | None, key: str
) -> None:
    with pytest.raises(UserError, match=rf"point \d of sweep\(\) sets {key}"):
        read_sweep(write(tmp_path, body), (), flag)


@pytest.mark.fast
def test_flops_are_solved_by_steps_or_by_width(tmp_path: Path, costs: FakeCosts) -> None:
    spec = write(tmp_path, VARIANTS)
    flags = [("train_steps", "300")]  # 6 · 1000 · 1200 tokens
    sweep = budget.solve_budget(read_sweep(spec, flags, "flops"), tmp_path / "s")
    assert sweep.amount == 7_200_000
    assert solved(sweep) == [300, 300, 231, 231]  # 923 tokens are wanted: 924 are nearest
    assert plan(sweep, [3])[0].load().train_epochs is None

    like = write(tmp_path, f"budgeted({VARIANTS}, like={{'model.own': 300}})")
    sweep = budget.solve_budget(read_sweep(like, (), "flops"), tmp_path / "u")
    assert sweep.amount == 6 * 1300 * 399  # 100 steps, 2 epochs, of which others take more
    assert solved(sweep) == [130, 130, 100, 100]

    wide = write(tmp_path, f"budgeted({VARIANTS}, budget='flops', solve='model.mlp_dim')")
    sweep = budget.solve_budget(read_sweep(wide, flags), tmp_path / "t")
    assert solved(sweep) == [100, 100, 70, 70]


@pytest.mark.fast
def test_time_is_measured_once_and_written_down(
    tmp_path: Path, costs: FakeCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 points of 8 variants are measured 8 times, and never again."""
    points = f"grid({{'model.slowness': {[1 + i / 4 for i in range(8)]}, 'arg.seed': range(3)}})"
    spec = write(tmp_path, f"budgeted({points}, budget='time')")
    flags = [("train_steps", "1000")]
    sweep = budget.solve_budget(read_sweep(spec, flags), tmp_path / "s")
    assert costs.asked["seconds"] == 8
    assert solved(sweep)[::3] == [1000, 800, 667, 571, 500, 444, 400, 364]
    with monkeypatch.context() as patched:
        patched.delattr(budget, "ask_another")
        assert budget.solve_budget(read_sweep(spec, flags), tmp_path / "s") == sweep

    more = points.replace("range(3)", "range(4)").replace("[1.0", "[9.0, 1.0")
    spec = write(tmp_path, f"budgeted({more}, budget='time')")
    longer = budget.solve_budget(read_sweep(spec, flags), tmp_path / "s")
    assert costs.asked["seconds"] == 9 and solved(longer)[4::4] == solved(sweep)[::3]
    written = json.loads((tmp_path / "s" / "budget.json").read_text())
    assert written["measured_on"] == "this machine" and written["unit"] == "seconds"
    assert written["reference"]["amount"] == pytest.approx(100)
    assert [len(each["points"]) for each in written["solved"]] == [4] * 9


SPEEDS = "budgeted(grid({'model.slowness': (1., 2., 4.)}), budget='time')"


@pytest.mark.fast
def test_all_points_are_timed_on_the_machine_that_measures_first(
    tmp_path: Path, costs: FakeCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs of an array run on nodes of other speeds."""
    spec, flags = write(tmp_path, SPEEDS), [("train_steps", "400")]
    found = budget.solve_budget(read_sweep(spec, flags), tmp_path / "s", numbers=[0])
    assert solved(found) == [400, 200, 100] and costs.asked["seconds"] == 3
    monkeypatch.setattr(training_costs, "where_measured", lambda: "a slow machine")
    monkeypatch.setattr(costs, "seconds_per_step", lambda config: pytest.fail("measured again"))
    again = budget.solve_budget(read_sweep(spec, flags), tmp_path / "s", numbers=[2])
    assert again == found
    written = json.loads((tmp_path / "s" / "budget.json").read_text())
    assert written["measured_on"] == "this machine"


@pytest.mark.fast
def test_what_is_not_measured_yet_is_refused_on_another_machine(
    tmp_path: Path, costs: FakeCosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, flags = write(tmp_path, SPEEDS), [("train_steps", "400")]
    budget.solve_budget(read_sweep(spec, flags), tmp_path / "s")
    before = (tmp_path / "s" / "budget.json").read_text()
    monkeypatch.setattr(training_costs, "where_measured", lambda: "a slow machine")
    more = read_sweep(write(tmp_path, SPEEDS.replace("4.)", "4., 8.)")), flags)
    told = r"measured on this machine, this is a slow machine.*another --workdir"
    with pytest.raises(UserError, match=told) as refusal:
        budget.solve_budget(more, tmp_path / "s")
    assert "\n" not in str(refusal.value)
    assert (tmp_path / "s" / "budget.json").read_text() == before
    chosen = budget.solve_budget(more, tmp_path / "s", numbers=[1])  # which is there
    assert solved(chosen) == [400, 200, 100, None]
    # Seeds need no time of their own, and a config that is refused none at all.
    seeds = SPEEDS.replace("4.)", "4.), 'arg.seed': (0, 1, 'x')")
    found = budget.solve_budget(read_sweep(write(tmp_path, seeds), flags), tmp_path / "s")
    assert solved(found) == [400, 400, None, 200, 200, None, 100, 100, None]
    written = json.loads((tmp_path / "s" / "budget.json").read_text())
    assert written["measured_on"] == "this machine"


@pytest.mark.fast
def test_commands_at_once_measure_once(tmp_path: Path, costs: FakeCosts) -> None:
    spec = write(tmp_path, "budgeted(grid({'model.slowness': (1., 2., 30.)}), budget='time')")
    found = []

    def plan_it() -> None:
        found.append(budget.solve_budget(read_sweep(spec, ()), tmp_path / "s"))

    threads = [threading.Thread(target=plan_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[1:] == found[:1] * 3 and costs.asked["seconds"] == 3
    assert list(found[0].refused) == [2]  # 10 s, of steps of 3 s
    assert "train_steps=3 gives 9 and train_steps=4 gives 12" in found[0].refused[2]


@pytest.mark.fast
def test_steps_are_those_of_the_reference(tmp_path: Path, costs: FakeCosts) -> None:
    sweep = read_sweep(write(tmp_path, VARIANTS), (), "steps")
    assert solved(budget.solve_budget(sweep, tmp_path / "s")) == [100] * 4  # 2 epochs
    sweep = read_sweep(write(tmp_path, VARIANTS), [("train_steps", "7")], "steps")
    assert solved(budget.solve_budget(sweep, tmp_path / "t")) == [7] * 4
    assert read_sweep(write(tmp_path, VARIANTS), ()).budget is None


@pytest.mark.fast
def test_what_does_not_fit_together_is_refused(tmp_path: Path, costs: FakeCosts) -> None:
    spec = write(tmp_path, f"budgeted({VARIANTS})")
    with pytest.raises(UserError, match=r"measured on one machine.*drop --storage"):
        budget.solve_budget(read_sweep(spec, (), "time"), tmp_path / "s", storage="sqlite://")
    budget.solve_budget(read_sweep(spec, ()), tmp_path / "s")
    Path(spec).write_text(Path(spec).read_text().replace('"mlp_dim": 100', '"mlp_dim": 90'))
    more = Path(spec).read_text().replace("300)", "300, 400)")
    Path(spec).write_text(more)
    with pytest.raises(UserError, match="has changed since its budget was written down"):
        budget.solve_budget(read_sweep(spec, ()), tmp_path / "s")
    space = "SearchSpace({'seed': Whole(0, 9)})"
    head = "from attention.configuration.search_space import SearchSpace, Whole\n"
    spec = write(tmp_path, space)
    Path(spec).write_text(head + Path(spec).read_text())
    with pytest.raises(UserError, match="--budget=params is for points"):
        read_sweep(spec, (), "params")


@pytest.mark.fast
def test_a_dry_run_makes_nothing(tmp_path: Path, costs: FakeCosts) -> None:
    sweep = read_sweep(write(tmp_path, f"budgeted({VARIANTS})"), ())
    assert solved(budget.solve_budget(sweep, tmp_path / "s", keep=False)) == [100, 100, 70, 70]
    assert not (tmp_path / "s").exists()


def run_with(budget_kind: str | None, spec: str, workdir: Path) -> list[Any]:
    sweep = budget.solve_budget(read_sweep(spec, (), budget_kind), workdir)
    setting = make_setting(sweep, workdir, Selection(), train="support.fake_training:train")
    return run_sweep(sweep, setting)


def test_the_sweep_directory_tells_what_was_solved(
    tmp_path: Path, costs: FakeCosts, trainer: str
) -> None:
    spec = write(tmp_path, f"budgeted({VARIANTS})")
    extra = 'config.steps, config.rate, config.step_seconds = 1, 1.0, 0.0; config.behaviour="good"'
    text = (
        Path(spec).read_text().replace("    return config\n", f"    {extra}\n    return config\n")
    )
    Path(spec).write_text(text)
    workdir = tmp_path / "s"
    seen = run_with(None, spec, workdir)
    assert [each.standing.status for each in seen] == ["complete"] * 4
    written = json.loads((workdir / "sweep.json").read_text())
    assert written["budget"] == {"kind": "params", "solve": "model.mlp_dim", "like": {}}
    assert written["budget_amount"] == 1000
    rows = [json.loads(line) for line in (workdir / "trials.jsonl").read_text().splitlines()]
    assert [row["overrides"]["model.mlp_dim"] for row in rows] == [100, 100, 70, 70]
    assert {(row["budget"], row["budget_amount"]) for row in rows} == {("params", 1000)}
    setting = make_setting(read_sweep(spec, ()), workdir, Selection())
    assert f"wrote {workdir}: budget.json sweep.json" in closing_words(setting, seen)
    assert len(run_with(None, spec, workdir)) == 4
    with pytest.raises(UserError, match="holds a sweep with budget="):
        run_with("flops", spec, workdir)


PLAN = """
import sys
from attention.sweeping import budget, closing, plan, sweep
swept = plan.read_sweep(sys.argv[1], [("train_steps", "7")], "steps")
swept = budget.solve_budget(swept, sys.argv[2])
assert [point["train_steps"] for point in swept.points] == [7] * 4
print("jax" in sys.modules)
"""


def test_equal_steps_are_planned_without_jax(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PLAN, write(tmp_path, VARIANTS), str(tmp_path / "s")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.parametrize("flag", ["--index=4", "--trials=0", "--workers=0"])
def test_a_wrong_number_is_told_before_anything_is_solved(tmp_path: Path, flag: str) -> None:
    spec = write(tmp_path, f"budgeted({VARIANTS}, budget='params')")
    words = [sys.executable, "sweep.py", f"--config={spec}", f"--workdir={tmp_path}/s", flag]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 2 and flag in done.stderr and "expected" in done.stderr
    assert "solving" not in done.stderr and not (tmp_path / "s").exists()
