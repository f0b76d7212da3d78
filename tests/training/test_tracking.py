"""A run in a tracker: each row once, over signals, kills and outages; never in training's way.

The trackers' packages are stood in for by small modules with the same signatures; where one is
installed, the same tests read back what it stored itself.
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from ml_collections import ConfigDict
from support.runs import small_config
from support.trackers import NAMES, Fake, Real

from attention import configuration
from attention.configuration.check import CHOICES
from attention.errors import Failure, Interrupted, UserError
from attention.training import tracking
from attention.training.claim import claim_directory
from attention.training.metrics_log import MetricsLog
from attention.training.run_directory import RunDirectory

pytestmark = pytest.mark.fast

BACKENDS = "attention.training.tracking.backends"
RESULT = {"step": 8, "variant": "linear", "best_step": 6, "eval": {"accuracy": 0.5}, "test": None}


def fresh_backends(monkeypatch) -> None:
    for name in NAMES:
        monkeypatch.setitem(sys.modules, f"{BACKENDS}.{name}", None)
        del sys.modules[f"{BACKENDS}.{name}"]


@pytest.fixture(params=NAMES)
def fake(request, monkeypatch):
    """One of the trackers, stood in for."""
    made = Fake(request.param)
    for name, module in made.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    fresh_backends(monkeypatch)
    yield made
    sys.modules.pop(f"{BACKENDS}.{request.param}", None)


@pytest.fixture(params=[*NAMES, *(f"real {name}" for name in NAMES)])
def tracker(request, tmp_path, monkeypatch):
    """One of the trackers, stood in for, or as it is installed."""
    name = request.param.removeprefix("real ")
    if name != request.param:
        pytest.importorskip(name)
        yield Real(name, tmp_path, monkeypatch)
        return
    request.param = name
    yield from fake.__wrapped__(request, monkeypatch)


def backend_of(tracker) -> str:
    return tracker.name if isinstance(tracker, Real) else tracker.module.__name__


def config_for(tracker, **more) -> ConfigDict:
    section = {"backend": backend_of(tracker), "project": "pos"}
    return ConfigDict({"seed": 3, "train_steps": 8, "tracking": section, **more})


def sitting(run, config, steps, *, resume_step=0, status: str | None = "complete") -> None:
    """What a training run does with its log; without a status it is killed at the end."""
    tracked = tracking.start(config, run, resume_step=resume_step)
    run.truncate_metrics(resume_step)
    log = MetricsLog(run, resume_step=resume_step, tracked=tracked)
    for step in steps:
        log.write(step, {"train/loss": 1 / step, "train/none": None, "train/nan": float("nan")})
        if step % 2 == 0:
            log.write(step, {"eval/accuracy": step / 10})
    if status is not None:
        log.end({"status": status, **RESULT})
        log.close()


def rows_of(steps) -> list[tuple[int, dict[str, float]]]:
    rows = []
    for step in steps:
        rows.append((step, {"train/loss": 1 / step}))
        if step % 2 == 0:
            rows.append((step, {"eval/accuracy": step / 10}))
    return rows


def merged(rows) -> dict[int, dict[str, float]]:
    """Rows by step: Weights & Biases keeps one for each."""
    found: dict[int, dict[str, float]] = {}
    for step, row in rows:
        assert not set(found.get(step, {})) & set(row), "a number came twice"
        found.setdefault(step, {}).update(row)
    return found


def a_run(folder: Path) -> RunDirectory:
    run = RunDirectory(folder)
    run.create()
    return run


def test_a_tracker_gets_the_config_each_row_and_how_it_ended(tracker, tmp_path):
    run = a_run(tmp_path / "my_sweep" / "trials" / "0123abcd")
    sitting(run, config_for(tracker), range(1, 9))
    (stored,) = tracker.stored()
    assert (stored.project, stored.name, stored.group) == ("pos", "0123abcd", "my_sweep")
    assert str(stored.config["seed"]) == "3" and stored.config["tracking.project"] == "pos"
    assert merged(stored.rows) == merged(rows_of(range(1, 9)))
    assert stored.results["status"] == "complete"
    assert stored.results["result/eval/accuracy"] == 0.5 and stored.results["result/best_step"] == 6
    assert stored.results["result/variant"] == "linear" and "result/test" not in stored.results
    assert stored.ended == [
        {"wandb": 0, "mlflow": "FINISHED", "trackio": None}[backend_of(tracker)]
    ]


def test_a_run_that_goes_on_is_the_same_run_there(tracker, tmp_path):
    run = a_run(tmp_path / "run")
    config = config_for(tracker)
    sitting(run, config, range(1, 8), status="interrupted")
    interrupted = tracker.stored()[0]
    assert interrupted.results["status"] == "interrupted"
    assert interrupted.ended == [
        {"wandb": 130, "mlflow": "KILLED", "trackio": None}[backend_of(tracker)]
    ]
    config.train_steps = 12
    sitting(run, config, range(5, 13), resume_step=4)
    (stored,) = tracker.stored()
    assert (stored.id == interrupted.id and stored.group is None) or stored.group == ""
    assert merged(stored.rows) == merged(rows_of(range(1, 13)))
    assert stored.results["status"] == "complete"
    told = stored.results if backend_of(tracker) == "mlflow" else stored.config
    assert str(told["train_steps"]) == "12"


def test_runs_in_threads_do_not_mix(tracker, tmp_path):
    def one(index: int) -> None:
        run = a_run(tmp_path / f"run{index}")
        sitting(run, config_for(tracker), range(index + 1, index + 6))

    threads = [threading.Thread(target=one, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = {run.name: run for run in tracker.stored()}
    assert set(stored) == {"run0", "run1", "run2"}
    for index in range(3):
        assert merged(stored[f"run{index}"].rows) == merged(rows_of(range(index + 1, index + 6)))
        assert stored[f"run{index}"].results["status"] == "complete"


def test_what_a_killed_run_has_sent_is_not_sent_again(fake, tmp_path):
    run, config = a_run(tmp_path / "run"), config_for(fake)
    sitting(run, config, range(1, 9), status=None)
    sitting(run, config, range(5, 7), resume_step=4, status=None)  # killed before it caught up
    sitting(run, config, range(5, 11), resume_step=4)
    (stored,) = fake.stored()
    assert stored.rows == rows_of(range(1, 11))


def test_an_outage_costs_one_warning_and_is_made_up_for(fake, tmp_path, caplog):
    run, config = a_run(tmp_path / "run"), config_for(fake)
    tracked = tracking.start(config, run, resume_step=0)
    with caplog.at_level(logging.WARNING), MetricsLog(run, tracked=tracked) as log:
        for step in range(1, 9):
            fake.broken = step > 3
            log.write(step, {"train/loss": 1 / step})
        log.end({"status": "interrupted", **RESULT})
    (record,) = caplog.records
    assert "has failed" in record.getMessage() and "the server is gone" in record.getMessage()
    assert len(run.rows()) == 8 and len(fake.stored()[0].rows) == 3
    fake.broken = False
    sitting(run, config, range(7, 9), resume_step=6)
    sent = [step for step, row in fake.stored()[0].rows if "train/loss" in row]
    assert sent == list(range(1, 9))


def test_a_tracker_named_later_gets_all_rows(fake, tmp_path):
    run, config = a_run(tmp_path / "run"), config_for(fake)
    off = config_for(fake, tracking={"backend": "none", "project": "pos"})
    sitting(run, off, range(1, 5))
    assert not (run.path / "tracking.json").exists() and not fake.runs
    sitting(run, config, range(5, 7), resume_step=4)
    sitting(run, off, range(7, 9), resume_step=6)
    sitting(run, config, range(9, 11), resume_step=8)
    (stored,) = fake.stored()
    assert stored.rows == rows_of(range(1, 11))
    sitting(run, config_for(fake, tracking={"backend": backend_of(fake), "project": "b"}), [])
    assert {one.project for one in fake.stored()} == {"pos", "b"}


def test_what_no_result_ends_is_interrupted(fake, run):
    MetricsLog(run, tracked=tracking.start(config_for(fake), run, resume_step=0)).close()
    assert fake.stored()[0].results["status"] == "interrupted"


def test_other_processes_of_a_run_send_nothing(fake, run, monkeypatch):
    monkeypatch.setattr("jax.process_index", lambda: 1)
    sitting(run, config_for(fake), range(1, 3))
    assert not fake.runs and not (run.path / "tracking.json").exists()


def test_a_tracker_that_does_not_start_is_told_by_key(fake, run):
    fake.broken = True
    with pytest.raises(UserError, match=r"tracking\.backend=.*the server is gone.*backend=none"):
        tracking.start(config_for(fake), run, resume_step=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_package_that_is_missing_is_told_before_anything_is_built(name, tmp_path, monkeypatch):
    from attention.training import loop, vectorize

    fresh_backends(monkeypatch)
    monkeypatch.setitem(sys.modules, name, None)
    config = ConfigDict({"tracking": {"backend": name, "project": "pos"}})
    with pytest.raises(UserError, match=rf"backend={name} needs .*pip install -e '\.\[tracking\]'"):
        loop.train(config, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(vectorize, "check_alike", lambda configs: None)
    with pytest.raises(UserError, match="needs packages"):
        vectorize.train_together([config], [str(tmp_path / "run")])


def test_a_command_that_failed_before_its_first_step_leaves_no_name_there(run):
    (run.path / "tracking.json").write_text("{}")
    run.write_config(configuration.to_json(ConfigDict({"seed": 1})))
    claim_directory(run, ConfigDict({"seed": 2}))
    assert not (run.path / "tracking.json").exists()


@pytest.mark.long
def test_a_training_run_tells_how_each_sitting_ended(tmp_path, monkeypatch):
    from attention.training import loop
    from attention.training.shared import Shared

    made = Fake("trackio")
    monkeypatch.setitem(sys.modules, "trackio", made.module)
    fresh_backends(monkeypatch)
    config = small_config(tmp_path / "data", tracking__backend="trackio")
    run, shared = RunDirectory(tmp_path / "run"), Shared()
    statuses = []
    for asked, error in (("SIGTERM", Interrupted), ("no number", Failure), (None, None)):
        take_step = loop.Trainer._take_step

        def take(self, asked=asked, take_step=take_step):
            take_step(self)
            if self.step == 5 and asked == "SIGTERM":
                self._interrupt.requested = asked
            if self.step == 7 and asked == "no number":
                raise Failure(asked)

        with monkeypatch.context() as patch, pytest.raises(error) if error else nullcontext():
            patch.setattr(loop.Trainer, "_take_step", take)
            loop.train(config, str(run.path), shared=shared)
        statuses.append(made.stored()[0].results["status"])
    assert statuses == ["interrupted", "failed", "complete"]
    (stored,) = made.stored()
    rows = [(row["step"], {k: v for k, v in row.items() if "/" in k}) for row in run.rows()]
    assert [(step, set(row)) for step, row in stored.rows] == [(step, set(r)) for step, r in rows]
    assert stored.config["optimizer.schedule"] == config.optimizer.schedule
    result = run.read_result()
    assert result and stored.results["result/test/accuracy"] == result["test"]["accuracy"]
    sys.modules.pop(f"{BACKENDS}.trackio", None)


def test_trackio_refuses_to_go_on_with_a_namesake(tmp_path, monkeypatch):
    made = Fake("trackio")
    monkeypatch.setitem(sys.modules, "trackio", made.module)
    fresh_backends(monkeypatch)
    first, second = a_run(tmp_path / "a" / "run"), a_run(tmp_path / "b" / "run")
    sitting(first, config_for(made), range(1, 3), status="interrupted")
    sitting(second, config_for(made), range(1, 3))
    with pytest.raises(UserError, match=r"newest run called 'run'.*tracking\.project"):
        sitting(first, config_for(made), range(3, 5), resume_step=2)
    sys.modules.pop(f"{BACKENDS}.trackio", None)


def test_the_keys_are_about_running_alone():
    spec = "configs/pos_tagging.py:dataset=files,size=tiny"
    plain = configuration.load_config(spec)
    tracked = configuration.load_config(spec, {"tracking.backend": "wandb"})
    assert plain.tracking.backend == "none"
    assert configuration.config_hash(plain) == configuration.config_hash(tracked)
    assert configuration.continue_with(plain, tracked, where="run") == tracked
    assert configuration.program_of(plain) == configuration.program_of(tracked)
    with pytest.raises(UserError, match=r"tracking\.backend='wandbb'.*did you mean"):
        configuration.load_config(spec, {"tracking.backend": "wandbb"})


def test_each_tracker_has_a_file_and_a_place_among_the_choices(repository):
    folder = repository / "attention" / "training" / "tracking" / "backends"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert {*files, "none"} == set(CHOICES["tracking.backend"]) == {*NAMES, "none"}


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_ins_take_what_the_packages_take(name):
    """A call that fits the stand-in fits the package."""
    real, ours = pytest.importorskip(name), Fake(name).module
    if name == "mlflow":
        pairs = [
            (getattr(real.MlflowClient, method), function)
            for method, function in vars(ours.MlflowClient).items()
            if inspect.isfunction(function)
        ]
    else:
        pairs = [(real.init, ours.init), (real.Run.log, ours.Run.log)]
        pairs += [(real.Run.finish, ours.Run.finish)]
    for theirs, function in pairs:
        known = inspect.signature(theirs).parameters
        assert set(inspect.signature(function).parameters) <= set(known), function
