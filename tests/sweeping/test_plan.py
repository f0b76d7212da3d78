"""From sweep() to trials: whose values win, what is refused, and the printed command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from attention import configuration
from attention.configuration.points import point
from attention.configuration.search_space import Choice
from attention.errors import UserError
from attention.flags import _split_overrides
from attention.sweeping.plan import plan, plan_trial, read_sweep

pytestmark = pytest.mark.fast

REPOSITORY = Path(__file__).parents[2]
RECIPE = """
from ml_collections import ConfigDict
from attention.configuration.fields import optional

def get_config(arg=""):
    config = ConfigDict()
    config.size = arg or "none"
    config.seed = 0
    config.rate = 1.0
    config.betas = (0.9, 0.98)
    config.flag = False
    config.name = optional(None, str)
    config.warmup_steps = 5
    config.train_steps = optional(None, int)
    config.train_epochs = optional(2.0, float)
    config.eval_every_steps = 10
    config.attention = ConfigDict({"implementation": "auto", "heads": 2})
    return config
"""


def write(folder: Path, body: str) -> str:
    path = folder / "recipe.py"
    path.write_text(f"{RECIPE}\n\ndef sweep():\n    {body}\n", encoding="utf-8")
    return str(path)


def with_a_sweep() -> list[str]:
    files = sorted(path.name for path in (REPOSITORY / "configs").glob("*.py"))
    return [name for name in files if "def sweep(" in (REPOSITORY / "configs" / name).read_text()]


@pytest.mark.parametrize("name", with_a_sweep())
def test_the_sweeps_that_ship_can_be_planned(name: str) -> None:
    sweep = read_sweep(f"configs/{name}", [])
    if sweep.space is None:
        ends = [sweep.points[0], sweep.points[-1]]
    else:
        ranges = sweep.space.parameters.items()
        ends = [
            point(
                {
                    key: each.values[i] if isinstance(each, Choice) else (each.low, each.high)[i]
                    for key, each in ranges
                }
            )
            for i in (0, -1)
        ]
    first, last = (plan_trial(sweep, number, each) for number, each in enumerate(ends))
    assert first.config_hash and last.config_hash, first.error or last.error
    assert first.config_hash != last.config_hash


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return {'seed': 1}", r"must yield dicts or return a SearchSpace, got \{'seed': 1\}"),
        ("return []", "yields no point"),
        ("yield 3", "dicts with dotted keys, got 3"),
        ("yield {'seed': object()}", "'seed' holds"),
        ("yield 1 / 0", r"recipe.py:\d+: ZeroDivisionError"),
    ],
)
def test_what_is_no_sweep_is_refused(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_sweep(write(tmp_path, body), [])


def test_a_file_without_a_sweep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("def get_config(): pass\n")
    with pytest.raises(UserError, match=r"x.py has no sweep\(\)"):
        read_sweep(f"{tmp_path}/x.py", [])


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ("yield from ({'eval_every_steps': n} for n in (1, 2))", "eval_every_steps"),
        ("yield from ({'seed': 1}, {'parallelism': 'pmap'})", "parallelism"),
        (
            "yield from ({'attention': {'implementation': n}} for n in 'ab')",
            "attention.implementation",
        ),
        (
            "from attention.configuration.search_space import SearchSpace, Choice\n"
            "    return SearchSpace({'data.num_threads': Choice(1, 2)})",
            "data.num_threads",
        ),
    ],
)
def test_a_key_that_names_no_run_cannot_be_swept(tmp_path: Path, body: str, key: str) -> None:
    with pytest.raises(UserError, match=rf"varies {key},.*--config.{key}="):
        read_sweep(write(tmp_path, body), [])


def test_such_a_key_may_be_the_same_for_all(tmp_path: Path) -> None:
    spec = write(tmp_path, "yield from ({'eval_every_steps': 5, 'seed': n} for n in (1, 2))")
    assert len(read_sweep(spec, []).points) == 2


def test_a_points_values_win_over_flags_and_its_argument_over_that_typed(tmp_path: Path) -> None:
    spec = write(tmp_path, "yield {'arg': 'seed=7,b=2', 'rate': 3.0, 'train_epochs': 1.0}")
    flags = [("rate", "9"), ("train_steps", "50"), ("flag", "true")]
    (trial,) = plan(read_sweep(f"{spec}:a=1,b=1", flags), [0])
    config = trial.load()
    assert config.size == "a=1,b=2,seed=7"
    assert (config.rate, config.train_epochs, config.train_steps) == (3.0, 1.0, None)
    assert config.flag is True


@pytest.mark.parametrize(
    "values",
    [
        {"rate": 1e-05},
        {"betas": (0.5, 0.25)},
        {"betas": [0.5]},
        {"flag": True, "name": "a b'c,=\"$x"},
        {"name": None},
        {"warmup_steps": "5%"},
        {"attention": {"heads": 4}},
        {"attention.heads": 8, "arg": "x y=1"},
    ],
)
def test_the_printed_command_makes_the_config_of_the_point(tmp_path: Path, values: dict) -> None:
    spec = write(tmp_path, "yield {}")
    trial = plan_trial(read_sweep(spec, [("seed", "3")]), 0, values)
    assert trial.config_hash, trial.error
    python, script, config, workdir, *words = shlex.split(trial.command("some where"))
    assert (python, script, workdir) == ("python", "train.py", "--workdir=some where")
    rest, overrides = _split_overrides(words)
    typed = configuration.load_config(config.removeprefix("--config="), overrides)
    direct = configuration.load_config(spec, {"seed": 3, **values})
    assert not rest and typed == direct
    assert configuration.config_hash(typed) == trial.config_hash


def test_points_with_one_config_are_one_trial(tmp_path: Path) -> None:
    spec = write(tmp_path, "yield from ({'rate': 1.0}, {}, {'rate': 2}, {'rate': 2.0})")
    trials = plan(read_sweep(spec, []), range(4))
    assert [trial.number for trial in trials] == [0, 2]


def test_a_refused_config_is_a_trial_unless_all_are(tmp_path: Path) -> None:
    spec = write(tmp_path, "yield from ({'rate': 1.0}, {'rat': 1.0}, {'rate': 'x'})")
    sweep = read_sweep(spec, [])
    good, typo, wrong = plan(sweep, range(3))
    assert good.config_hash and not typo.config_hash and not wrong.config_hash
    assert "did you mean 'rate'" in typo.error and "expected a float" in wrong.error
    with pytest.raises(UserError, match="all 2 points are refused, the first: no config key 'rat'"):
        plan(sweep, [1, 2])


def test_a_config_file_that_has_changed_is_noticed(tmp_path: Path) -> None:
    spec = write(tmp_path, "yield {}")
    (trial,) = plan(read_sweep(spec, []), [0])
    Path(spec).write_text(Path(spec).read_text().replace("rate = 1.0", "rate = 2.0"))
    with pytest.raises(UserError, match="has changed since the sweep was started"):
        trial.load()
