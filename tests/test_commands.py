"""The commands as a user types them: output, files, exit status."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from support.runs import REPOSITORY, command, environ, flags, run, small_overrides
from support.treebank import conllu, sentences

SPEC = "configs/pos_tagging.py:dataset=files,size=tiny"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    overrides = small_overrides(folder / "data", train_steps=30, eval_every_steps=15)
    done = run("train.py", f"--config={SPEC}", f"--workdir={folder}/run", *flags(overrides))
    assert done.returncode == 0, done.stderr
    return folder / "run", done


def test_train_says_what_it_wrote_and_what_to_type_next(trained):
    workdir, done = trained
    assert f"wrote {workdir}" in done.stdout
    assert f"python eval.py --workdir={workdir}" in done.stdout
    assert "predict.py" in done.stdout
    assert "step 15/30" in done.stderr


def test_eval_ends_with_one_json_line_and_writes_it(trained):
    workdir, _ = trained
    done = run("eval.py", f"--workdir={workdir}", "--split=dev")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    written = workdir / "eval" / f"dev-{summary['step']}.json"
    assert json.loads(written.read_text()) == summary
    assert {"accuracy", "loss", "split", "step", "num_eval_examples", "num_eval_tokens"} <= set(
        summary
    )


def test_eval_of_a_file_is_named_by_its_stem_and_counts_every_word(trained, tmp_path):
    workdir, _ = trained
    made = sentences(7, seed=9)
    (tmp_path / "mine.conllu").write_text(conllu(made), encoding="utf-8")
    done = run(
        "eval.py", f"--workdir={workdir}", f"--data={tmp_path}/mine.conllu", "--eval_batch_size=4"
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["split"] == "mine" and summary["num_eval_examples"] == 7
    assert summary["num_eval_tokens"] == sum(map(len, made))


def test_predict_gives_one_line_for_each_line(trained):
    workdir, _ = trained
    lines = ["balon korat .", "", "ungesehen über dem 李on", "   ", "x"]
    done = run("predict.py", f"--workdir={workdir}", stdin="\n".join(lines) + "\n")
    out = done.stdout.split("\n")
    assert done.returncode == 0 and len(out) == len(lines) + 1 and out[-1] == ""
    for line, answer in zip(lines, out, strict=False):
        assert [word.rpartition("_")[0] for word in answer.split()] == line.split()


def test_predict_adds_logits_and_takes_a_long_line_in_pieces(trained):
    workdir, _ = trained
    words = ["balon"] * 80  # over data.max_length = 32
    done = run("predict.py", f"--workdir={workdir}", "--logits", stdin=" ".join(words) + "\n")
    tagged, _, logits = done.stdout.strip().partition("\t")
    assert len(tagged.split()) == len(json.loads(logits)) == 80
    assert "stdin:1: 80 words, over data.max_length=32" in done.stderr


def test_predict_reads_and_writes_conllu(trained):
    workdir, _ = trained
    text = "# sent_id = 1\n# text = balon .\n1-2\tbalon.\t_\t_\t_\t_\t_\t_\t_\t_\n"
    text += "1\tbalon\tl\t_\t_\t_\t0\troot\t_\tA=b\n2\t.\t.\t_\t_\t_\t1\tpunct\t_\t_\n\n"
    done = run("predict.py", f"--workdir={workdir}", "--format=conllu", stdin=text)
    before, after = text.split("\n"), done.stdout.split("\n")
    assert len(before) == len(after)
    for a, b in zip(before, after, strict=True):
        if a[:2] in ("1\t", "2\t"):
            a_columns, b_columns = a.split("\t"), b.split("\t")
            assert b_columns[3] in ("NOUN", "VERB", "ADJ", "PUNCT")
            assert a_columns[:3] + a_columns[4:] == b_columns[:3] + b_columns[4:]
        else:
            assert a == b


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["eval.py", "--workdir={}", "--split=train"], ["train", "dev"]),
        (["eval.py", "--workdir={}", "--checkpoint=7"], ["7", "30"]),
        (["eval.py", "--workdir={}", "--data=missing.conllu"], ["missing.conllu"]),
        (["eval.py", "--workdir={}/nowhere"], ["nowhere"]),
        (["eval.py", "--workdir={}", "--eval_batch_size=0"], ["eval_batch_size", "0"]),
        (["predict.py", "--workdir={}", "--checkpoint=best-ish"], ["best-ish", "best"]),
        (["predict.py", "--workdir={}", "--format=conllu", "--logits"], ["--logits", "text"]),
        (["train.py", "--config=configs/nope.py", "--workdir={}2"], ["nope"]),
        (["train.py", "--config=configs/pos_tagging.py", "--workdir={}"], ["model.dim", "16"]),
        (
            ["train.py", "--config=configs/pos_tagging.py", "--workdir={}3", "--config.sed=1"],
            ["sed", "seed"],
        ),
    ],
)
def test_wrong_input_is_one_line_and_status_2(trained, arguments, words):
    workdir, _ = trained
    script, *rest = [argument.format(workdir) for argument in arguments]
    done = run(script, *rest)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in done.stderr
    assert all(word in lines[0] for word in words), lines[0]


@pytest.mark.fast
@pytest.mark.parametrize("script", sorted(path.name for path in REPOSITORY.glob("*.py")))
def test_help_is_quick_and_exits_0(script):
    done = run(script, "--help")
    assert done.returncode == 0 and "example:" in done.stdout
    assert "--workdir" in done.stdout or script == "compare.py"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_saves_first_and_the_same_command_goes_on(tmp_path, name):
    overrides = small_overrides(
        tmp_path / "data", train_steps=3000, eval_every_steps=1000, checkpoint_every_steps=1000
    )
    arguments = [f"--config={SPEC}", f"--workdir={tmp_path}/run", *flags(overrides)]
    with subprocess.Popen(
        command("train.py", *arguments), env=environ(), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(tmp_path / "run" / "metrics.jsonl", lines=20)
        process.send_signal(getattr(signal, name))
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "interrupted" and result["step"] >= 20
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == [str(result["step"])]


def wait_for(path, *, lines: int, seconds: float = 120) -> None:
    """Waits until a file has so many lines."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text().count("\n") >= lines:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not reach {lines} lines")


def test_two_runs_at_once_in_one_directory_are_refused(tmp_path):
    overrides = small_overrides(tmp_path / "data", train_steps=3000)
    arguments = [f"--config={SPEC}", f"--workdir={tmp_path}/run", *flags(overrides)]
    with subprocess.Popen(
        command("train.py", *arguments), env=environ(), stderr=subprocess.DEVNULL
    ) as process:
        wait_for(tmp_path / "run" / "metrics.jsonl", lines=1)
        second = run("train.py", *arguments)
        process.kill()
    assert second.returncode == 2 and f"process {process.pid}" in second.stderr


def test_relative_and_home_directories_work_from_anywhere(tmp_path):
    overrides = small_overrides(tmp_path / "data", train_steps=1)
    home = tmp_path / "home"
    home.mkdir()
    for workdir, expected in (("runs/x", tmp_path / "runs/x"), ("~/y", home / "y")):
        done = subprocess.run(
            command("train.py", f"--config={SPEC}", f"--workdir={workdir}", *flags(overrides)),
            env={**environ(), "HOME": str(home), "XDG_CACHE_HOME": os.path.expanduser("~/.cache")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert (expected / "checkpoints" / "1").is_dir()


def test_sigterm_ends_predict_with_130(trained):
    workdir, _ = trained
    with subprocess.Popen(
        command("predict.py", f"--workdir={workdir}"),
        env=environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        time.sleep(3)
        process.terminate()
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and b"Traceback" not in stderr


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of the run, to be damaged."""
    return shutil.copytree(trained[0], tmp_path / "copy")


def edit_json(path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


DAMAGES = {
    "config.json is cut": lambda run: (run / "config.json").write_text('{"task": '),
    "config.json is no text": lambda run: (run / "config.json").write_bytes(b"\xff\xfe\x00"),
    "other sizes": lambda run: edit_json(run / "config.json", lambda c: c["model"].update(dim=32)),
    "fewer labels": lambda run: edit_json(
        run / "tokenizer" / "labels.json", lambda c: c["names"].pop()
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_refused_in_one_line(copy, damage):
    DAMAGES[damage](copy)
    done = run("predict.py", f"--workdir={copy}", stdin="balon\n")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and str(copy) in done.stderr


def test_a_damaged_result_is_written_again(copy, trained):
    (copy / "result.json").write_text("{")
    config = json.loads((copy / "config.json").read_text())
    arguments = [f"--config=configs/saved.py:{copy}", f"--workdir={copy}"]
    done = run("train.py", *arguments)
    assert done.returncode == 0, done.stderr
    again = json.loads((copy / "result.json").read_text())
    before = json.loads((trained[0] / "result.json").read_text())
    assert config["train_steps"] == again["step"] and again["test"] == before["test"]


def test_text_is_utf8_whatever_the_locale(trained):
    done = subprocess.run(
        command("predict.py", f"--workdir={trained[0]}"),
        env=environ(PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONCOERCECLOCALE="0"),
        input="李on żarat\n".encode(),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert [word.rpartition("_")[0] for word in done.stdout.decode().split()] == ["李on", "żarat"]


def test_what_precedes_a_wrong_line_is_answered(trained):
    done = run("predict.py", f"--workdir={trained[0]}", stdin=b"balon\nb\xff\n")
    assert done.returncode == 2 and "stdin:2" in done.stderr
    assert done.stdout.startswith("balon_") and done.stdout.count("\n") == 1


def test_a_full_disk_is_one_line(trained):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("predict.py", f"--workdir={trained[0]}"),
            env=environ(),
            input=b"balon\n",
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 1 and b"Traceback" not in done.stderr
    assert b"error: No space left" in done.stderr
