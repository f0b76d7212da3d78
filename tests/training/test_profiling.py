"""A trace of some steps: readable, of these steps alone, and the run is the same with it."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from support.runs import REPOSITORY, losses, small_config

from attention.errors import Interrupted, UserError
from attention.training import loop
from attention.training.profiled_steps import Steps, check_steps, read_steps
from attention.training.profiling import Profile
from attention.training.shared import Shared

# Of the reader's own types.
pytestmark = pytest.mark.filterwarnings("ignore:builtin type event_stats:DeprecationWarning")


@pytest.fixture(scope="module")
def shared():
    """What the runs of this file compile but once."""
    return Shared()


@pytest.fixture(scope="module")
def plain(tmp_path_factory, shared):
    """The losses of a run without a trace."""
    folder = tmp_path_factory.mktemp("plain")
    loop.train(small_config(folder / "data"), str(folder / "run"), shared=shared)
    return losses(folder / "run")


def traced_steps(workdir: Path) -> list[int]:
    """The numbers of the steps in the one trace of a run, in order."""
    (file,) = (workdir / "profile").glob("plugins/profile/*/*.xplane.pb")
    data = jax.profiler.ProfileData.from_file(str(file))
    found = [
        (event.start_ns, dict(event.stats)["step_num"])
        for plane in data.planes
        for line in plane.lines
        for event in line.events
        if event.name == "train"
    ]
    return [step for _, step in sorted(found)]


def note_the_state_at(monkeypatch, *names: str) -> list:
    """Makes functions of jax.profiler note the trainer's step, and what it still waits for."""
    told, trainers = [], []
    for name in names:
        call = getattr(jax.profiler, name)

        def told_first(*arguments, name=name, call=call):
            told.append((name, trainers[0].step, trainers[0]._pending))
            return call(*arguments)

        monkeypatch.setattr(jax.profiler, name, told_first)
    restore = loop.Trainer._restore
    monkeypatch.setattr(
        loop.Trainer, "_restore", lambda self, *more: (trainers.append(self), restore(self, *more))
    )
    return told


def test_the_trace_has_the_steps_asked_for_and_changes_nothing(
    tmp_path, plain, shared, caplog, monkeypatch
):
    told = note_the_state_at(monkeypatch, "start_trace", "stop_trace")
    config = small_config(tmp_path / "data")
    with caplog.at_level(logging.INFO):
        loop.train(config, str(tmp_path / "run"), profile=Steps(3, 5), shared=shared)
    assert traced_steps(tmp_path / "run") == [3, 4, 5]
    assert losses(tmp_path / "run") == plain
    assert told == [("start_trace", 2, None), ("stop_trace", 5, None)]
    (line,) = [text for text in caplog.messages if "profile" in text]
    assert (
        "profile of steps 3 to 5" in line
        and f"xprof --logdir={tmp_path / 'run' / 'profile'}" in line
    )


@pytest.mark.fast
@pytest.mark.parametrize("compiles", [False, True])
def test_compilation_in_the_trace_is_told(tmp_path, caplog, monkeypatch, compiles):
    monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: None)
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: None)
    seconds = iter([1.5, 2.75 if compiles else 1.5])
    profile = Profile(Steps(3, 3), tmp_path, lambda: next(seconds), lambda: None)
    with profile.step(3):
        pass
    profile.after_step(3)
    profile.close()
    assert caplog.messages == compiles * [
        "1.2 s of the profile are compilation: of the first step or evaluation of this call, or "
        "for a batch of a new shape"
    ]


def test_a_signal_ends_the_trace_and_the_run_goes_on(tmp_path, plain, shared, caplog, monkeypatch):
    config, workdir = small_config(tmp_path / "data"), str(tmp_path / "run")
    take_step = loop.Trainer._take_step

    def take_and_stop(self):
        take_step(self)
        if self.step == 4:
            self._interrupt.requested = "SIGTERM"

    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "_take_step", take_and_stop)
        with caplog.at_level(logging.INFO), pytest.raises(Interrupted):
            loop.train(config, workdir, profile=Steps(3, 9), shared=shared)
    assert any("profile of steps 3 to 4" in text for text in caplog.messages)
    assert traced_steps(tmp_path / "run") == [3, 4]
    with pytest.raises(
        UserError, match=r"profile_steps=3:9: the run is at step 4 already.*5 to 12"
    ):
        loop.train(config, workdir, profile=Steps(3, 9), shared=shared)
    loop.train(config, workdir, shared=shared)
    assert losses(tmp_path / "run") == plain
    with pytest.raises(UserError, match="taken all its 12 steps"):
        loop.train(config, workdir, profile=Steps(3, 9), shared=shared)


def test_an_early_end_is_told(tmp_path, shared, caplog):
    config = small_config(tmp_path / "data")
    prune = lambda step, metrics: step >= 6  # noqa: E731
    loop.train(config, str(tmp_path / "a"), profile=Steps(8, 9), prune=prune, shared=shared)
    assert any("steps 8:9 were not reached" in text for text in caplog.messages)
    assert not (tmp_path / "a" / "profile").exists()


@pytest.mark.fast
@pytest.mark.parametrize("text", ["13:10", "a:b", "0:3", "10", "", "1:2:3", "-1:3", "1.5:3", "٣:٤"])
def test_wrong_text_is_refused_in_one_line(text):
    with pytest.raises(UserError, match=r"profile_steps=.*expected .*FIRST:LAST") as caught:
        read_steps(text)
    assert "\n" not in str(caught.value)


@pytest.mark.fast
def test_steps_that_never_come_are_refused():
    assert read_steps("10:13") == Steps(10, 13) and read_steps(" 7:7 ") == Steps(7, 7)
    check_steps(Steps(10, 13), at_step=9, total_steps=13)
    check_steps(None, at_step=9, total_steps=9)
    with pytest.raises(UserError, match=r"10:13 goes beyond the run, which has 12 steps"):
        check_steps(Steps(10, 13), at_step=0, total_steps=12)


@pytest.mark.fast
def test_the_command_refuses_wrong_text_without_jax(tmp_path):
    code = (
        "import sys; import train; from attention import command\n"
        f"words = ['--config=configs/pos_tagging.py', '--workdir={tmp_path / 'run'}',"
        " '--profile_steps=13:10']\n"
        "status = command.execute(train.main, train.make_parser(), words)\n"
        "sys.exit(status if 'jax' not in sys.modules else 77)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: --profile_steps=13:10: expected")
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "run").exists()
