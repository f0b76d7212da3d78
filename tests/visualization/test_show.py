"""The command: files, exit statuses, and what it says."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from support.pairs import pairs_config
from support.reviews import review_config
from support.runs import run, small_config
from visualization.made import PLACES
from visualization.opened import TEXTS, opened

import visualize as script
from attention import command
from attention.errors import Failure, UserError
from attention.training import loop
from attention.visualization import show
from attention.visualization.capture import Layer


def test_a_folder_with_all_there_is(monkeypatch, tmp_path):
    monkeypatch.setattr(show, "open_run", lambda workdir, checkpoint: opened("tagging"))
    (tmp_path / "input.txt").write_text(TEXTS["tagging"], encoding="utf-8")
    out = tmp_path / "seen"
    files = show.visualize("runs/none", str(tmp_path / "input.txt"), str(out), examples=1)
    there = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    manifest = json.loads((out / "visualization.json").read_text(encoding="utf-8"))
    assert there == set(manifest["files"])
    assert {str(file.relative_to(out)) for file in files} == there - {"visualization.json"}
    assert 0.0 <= manifest["largest_logit_difference"] < 1e-5
    assert manifest["examples"][0]["tokens"] == {"tokens": ["balon", "korat", ",", "."]}
    with np.load(out / "arrays" / "example-1.npz") as arrays:
        assert arrays["encoder-1"].shape == (2, 4, 4)
        np.testing.assert_allclose(arrays["encoder-1"].sum(axis=2), 1.0, atol=1e-6)


def test_what_differs_is_found():
    logits = np.zeros((2, 3), np.float32)
    changed = [show.Captured(logits, ()), show.Captured(logits + 0.25, ())]
    assert show.largest_difference(changed, [logits, logits]) == 0.25


def test_weights_that_are_no_numbers_are_refused_by_place():
    layer = Layer(PLACES[0], np.full((1, 2, 2), np.nan, np.float32))
    broken = [show.Captured(np.zeros((2, 3), np.float32), (layer,))]
    with pytest.raises(Failure, match="encoder layer 1: weights are no numbers"):
        show._refuse_no_numbers(broken)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--examples=0", "--examples=0 must be at least 1"),
        ("--max_tokens=-1", "--max_tokens=-1 must be at least 1"),
        ("--examples=x", "argument --examples: invalid int value: 'x'"),
        ("--imput=x", "no flag '--imput' (did you mean '--input'?)"),
        ("--checkpoint=best", "runs/none"),
    ],
)
def test_wrong_input_ends_with_status_2(flag, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--workdir=runs/none", "--input=x.txt", "--out=seen", flag]
    assert command.execute(script.main, script.make_parser(), words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == "" and not (tmp_path / "seen").exists()


def test_a_folder_of_others_is_refused_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(show, "open_run", lambda workdir, checkpoint: opened("tagging"))
    monkeypatch.setattr(show, "capture", lambda *given: pytest.fail("worked for nothing"))
    path = tmp_path / "input.txt"
    path.write_text("balon\n", encoding="utf-8")
    with pytest.raises(UserError, match="has not written"):
        show.visualize("runs/none", str(path), str(tmp_path))


def test_help_and_wrong_flags_do_without_jax(repository):
    code = (
        "import sys, visualize\nfrom attention import command\n"
        "for words in (['--help'], ['--no_such_flag']):\n"
        "    try: command.execute(visualize.main, visualize.make_parser(), words)\n"
        "    except SystemExit: pass\n"
        "sys.exit('jax' in sys.modules or 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True)
    assert done.returncode == 0 and b"--max_tokens" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "make", "places"),
    [
        ("tagging", small_config, {"encoder-1"}),
        ("sentiment", review_config, {"encoder-1", "pooling"}),
        ("translation", pairs_config, {"encoder-1", "decoder-1-self", "decoder-1-cross"}),
    ],
)
def test_each_task_from_a_run(kind, make, places, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "TkAgg")  # a window that is not there
    loop.train(make(tmp_path / "data"), str(tmp_path / "run"))
    (tmp_path / "input.txt").write_text(TEXTS[kind], encoding="utf-8")
    flags = [f"--workdir={tmp_path}/run", f"--input={tmp_path}/input.txt", f"--out={tmp_path}/seen"]
    done = run("visualize.py", *flags, "--checkpoint=latest")
    assert done.returncode == 0, done.stderr
    assert f"wrote {tmp_path}/seen/index.html" in done.stdout
    manifest = json.loads((tmp_path / "seen" / "visualization.json").read_text(encoding="utf-8"))
    assert manifest["step"] == 12 and manifest["largest_logit_difference"] < 1e-5
    assert {one["place"] for one in manifest["over_all_examples"]} == places
    done = run("predict.py", f"--workdir={tmp_path}/run", "--checkpoint=latest", stdin=TEXTS[kind])
    lines = zip(TEXTS[kind].split("\n"), done.stdout.split("\n"), strict=True)
    answers = [answer for text, answer in lines if text.strip()]
    assert [one["answer"] for one in manifest["examples"]] == answers
