"""The entry point of the commands: flags, one-line errors, exit statuses, log lines."""

from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attention import command, flags, python_version
from attention.errors import Failure, Interrupted, UserError

pytestmark = pytest.mark.fast


def _parser(**settings: Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tool.py", description="Does it.", **settings)
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--rows", type=int, default=3)
    return parser


def _config_parser() -> argparse.ArgumentParser:
    parser = _parser()
    parser.add_argument("--config", required=True)
    return parser


def _status_and_error(
    words: list[str], capsys: pytest.CaptureFixture[str], parser: argparse.ArgumentParser
) -> tuple[int, str]:
    status = command.execute(lambda arguments: None, parser, words)
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


# Flags


def test_flags_and_overrides_are_parsed_in_order() -> None:
    words = ["--workdir=runs/x", "--config", "c.py:a=b", "--config.seed=1"]
    words += ["--config.a.b", "x=y", "--rows", "-4", "--config.seed=2", "--config.e="]
    parsed = flags.parse(_config_parser(), words)
    assert vars(parsed) == {
        "workdir": "runs/x",
        "config": "c.py:a=b",
        "rows": -4,
        "overrides": [("seed", "1"), ("a.b", "x=y"), ("seed", "2"), ("e", "")],
    }


def test_a_command_without_config_has_no_overrides() -> None:
    assert vars(flags.parse(_parser(), ["--workdir=x"])) == {"workdir": "x", "rows": 3}


def test_a_parser_can_be_used_twice() -> None:
    parser = _config_parser()
    for seed in ("1", "2"):
        words = ["--workdir=x", "--config=c.py", f"--config.seed={seed}"]
        assert flags.parse(parser, words).overrides == [("seed", seed)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--wrkdir=x"], "no flag '--wrkdir' (did you mean '--workdir'?); see tool.py --help"),
        (["--workdir=x", "--work=y"], "no flag '--work'"),  # no abbreviations
        (["--workdir=x", "--confg.seed=1"], "no flag '--confg.seed' (did you mean '--config'?)"),
        (["--config=c.py"], "the following arguments are required: --workdir"),
        (["--workdir=x", "--config=c.py", "more"], "unexpected argument 'more'"),
        (["--workdir=x", "--config=c.py", "--rows=a"], "argument --rows: invalid int value: 'a'"),
        (
            ["--workdir=x", "--config=c.py", "--config.seed"],
            "--config.seed needs a value: --config",
        ),
        (["--config.seed", "--workdir=x"], "--config.seed needs a value"),
        (["--workdir=x", "--config.=1"], "'--config.=1' names no config key"),
        (["--workdir=x", "--flagfile"], "--flagfile needs a file"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, error = _status_and_error(words, capsys, _config_parser())
    assert status == 2
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1


def test_a_command_without_config_names_its_own_flag(capsys: pytest.CaptureFixture[str]) -> None:
    status, error = _status_and_error(["--workdir=x", "--config.rows=1"], capsys, _parser())
    assert status == 2
    assert error == "error: tool.py takes no config, so no --config.rows (did you mean '--rows'?)\n"


def test_help_lists_the_flags_and_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.execute(lambda arguments: None, _config_parser(), ["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for part in ("--workdir", "--rows", "--config.KEY=VALUE", "--flagfile", "Does it."):
        assert part in text


def test_a_command_without_config_does_not_offer_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.execute(lambda arguments: None, _parser(), ["--help"])
    assert "--config" not in capsys.readouterr().out


# Flag files


def test_a_flag_file_and_the_command_line_give_the_same(tmp_path: Path) -> None:
    file = tmp_path / "flags.txt"
    lines = ["# comment", "", "--workdir runs/my run", "--config=c.py:a=b", "--config.seed=1"]
    lines += ["  --config.a.b {'x': 1}", "--rows=5"]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    words = ["--workdir=runs/my run", "--config=c.py:a=b", "--config.seed=1"]
    words += ["--config.a.b={'x': 1}", "--rows=5"]
    expected = flags.parse(_config_parser(), words)
    assert flags.parse(_config_parser(), [f"--flagfile={file}"]) == expected
    assert flags.parse(_config_parser(), ["--flagfile", str(file)]) == expected


def test_what_comes_after_a_flag_file_wins(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.txt", tmp_path / "outer.txt"
    inner.write_text("--rows=1\n--workdir=a\n")
    outer.write_text(f"--flagfile={inner}\n--rows=2\n")
    parsed = flags.parse(_parser(), ["--rows=0", f"--flagfile={outer}", "--workdir=b"])
    assert (parsed.rows, parsed.workdir) == (2, "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "--workdir=x\nrows=3\n",
            "flags.txt:2: expected a flag such as --name=value, got 'rows=3'",
        ),
        ("--flagfile=flags.txt\n", "--flagfile=flags.txt reads itself"),
        ("--rws=3\n", "no flag '--rws' (did you mean '--rows'?)"),
        (None, "cannot read --flagfile=flags.txt: No such file or directory"),
        (b"\xff\xfe", "cannot read --flagfile=flags.txt: not UTF-8 text"),
    ],
)
def test_a_wrong_flag_file_is_named(
    text: str | bytes | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("flags.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    status, error = _status_and_error(["--flagfile=flags.txt"], capsys, _parser())
    assert status == 2
    assert error.startswith(f"error: {message}")


# Exit statuses


def _outcome(outcome: BaseException | int | None, capsys: pytest.CaptureFixture[str]):
    def main(arguments: argparse.Namespace) -> int | None:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    status = command.execute(main, _parser(), ["--workdir=x"])
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("outcome", "status", "error"),
    [
        (None, 0, ""),
        (0, 0, ""),
        (1, 1, ""),
        (UserError("no key\n'x'"), 2, "error: no key 'x'\n"),
        (Failure("the loss is NaN at step 3"), 1, "error: the loss is NaN at step 3\n"),
        (Interrupted("saved step 3"), 130, "saved step 3\n"),
        (Interrupted(), 130, ""),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_the_exit_status_says_how_it_ended(
    outcome: Any, status: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _outcome(outcome, capsys) == (status, error)


def test_an_unexpected_error_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    status, error = _outcome(ValueError("a defect"), capsys)
    assert status == 1
    assert "Traceback" in error
    assert "ValueError: a defect" in error


_SCRIPT = """
import argparse, logging, signal, sys, time
from attention import command

def main(arguments):
    import absl.logging
    logging.info("info line")
    logging.getLogger("attention.deep.inside").warning("careful")
    absl.logging.info("noise")
    logging.getLogger("orbax.checkpoint").info("noise")
    logging.getLogger("jax._src.dispatch").info("noise")
    absl.logging.warning("library warning")
    {body}

command.run(main, argparse.ArgumentParser(prog="tool.py"))
"""


def _start(repository: Path, body: str, **settings: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT.format(body=body)],
        cwd=repository,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **settings,
    )


def test_log_lines_are_plain_and_go_to_stderr(repository: Path) -> None:
    process = _start(repository, "print('result')")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "result\n")
    texts = [line.partition(" ")[2] for line in err.splitlines()]
    assert texts == ["info line", "warning: careful", "warning: library warning"]
    for line in err.splitlines():
        hours, minutes, seconds = line.partition(" ")[0].split(":")
        assert len(hours) == len(minutes) == len(seconds) == 2


@pytest.mark.parametrize("body", ["for i in range(10**6): print(i)", "print('x')"])
def test_a_reader_of_stdout_that_leaves_is_no_traceback(repository: Path, body: str) -> None:
    process = _start(repository, f"input(); {body}" if "for" not in body else body, stdin=-1)
    process.stdout.close()
    process.stdin.write("\n")
    process.stdin.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_a_broken_pipe_elsewhere_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, error = _outcome(BrokenPipeError("a worker is gone"), capsys)
    assert status == 1
    assert "a worker is gone" in error


def test_ctrl_c_ends_with_130(repository: Path) -> None:
    process = _start(repository, "print('ready', flush=True); time.sleep(600)")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted"


# The commands themselves


@pytest.mark.parametrize("script", ["train.py", "eval.py", "predict.py"])
def test_help_and_wrong_flags_need_no_jax(repository: Path, script: str, tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise RuntimeError('jax was imported')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for words, status in ((["--help"], 0), (["--wrkdir=x"], 2), (["--flagfile=/absent"], 2)):
        done = subprocess.run(
            [sys.executable, str(repository / script), *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr


def test_most_wrong_configs_are_said_without_jax(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise RuntimeError('jax was imported')\n")
    for config in ("configs/pos_taging.py", "configs/pos_tagging.py:size=x,variant=scaled_dot"):
        done = subprocess.run(
            [sys.executable, str(repository / "train.py"), f"--config={config}", "--workdir=x"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1


def test_a_flag_file_gives_the_config_that_the_flags_give(tmp_path: Path) -> None:
    from attention.configuration import load_config

    words = ["--config=configs/pos_tagging.py:size=tiny", "--workdir=x"]
    words += ["--config.optimizer.learning_rate=1e-3", '--config.model={"dropout_rate": 0.5}']
    file = tmp_path / "flags.txt"
    file.write_text("\n".join(words))
    typed = flags.parse(_config_parser(), words)
    read = flags.parse(_config_parser(), [f"--flagfile={file}"])
    config = load_config(typed.config, typed.overrides)
    assert load_config(read.config, read.overrides) == config
    assert config.model.dropout_rate == 0.5


# The version of Python


def test_an_old_python_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        python_version.check((3, 10, 4))
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: Attention Lab needs Python 3.11 or newer")
    assert error.endswith("is Python 3.10\n")
    python_version.check((3, 11, 0))
    python_version.check((4, 0, 0))


def test_an_old_python_can_read_the_code_up_to_that_line(repository: Path) -> None:
    # What Python 3.7 parses before the check runs, and the check itself.
    for file in ("train.py", "eval.py", "predict.py"):
        ast.parse((repository / file).read_text("utf-8"), feature_version=(3, 7))
    for file in ("__init__.py", "command.py", "python_version.py"):
        ast.parse((repository / "attention" / file).read_text("utf-8"), feature_version=(3, 7))
    body = ast.parse((repository / "attention" / "command.py").read_text("utf-8")).body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.names[0].name for node in imports[:2]] == ["annotations", "python_version"]
