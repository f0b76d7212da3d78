"""Which examples are shown, what is cut, and what their tokens are called."""

from __future__ import annotations

import logging

import pytest
from visualization.opened import opened, seen

from attention.errors import UserError
from attention.visualization.inputs import read_inputs
from attention.visualization.surfaces import surfaces


def write(folder, text, name="input.txt"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def tagged(folder, text, **given):
    saved = opened("tagging")
    return read_inputs(saved, write(folder, text), **{"examples": 8, "max_tokens": 16, **given})


def test_blank_lines_are_left_out_and_lines_counted(tmp_path):
    inputs = tagged(tmp_path, "\nbalon run\n \t\nkorat .")
    assert inputs.lines == (2, 4)
    assert [sequences["tokens"] for sequences in inputs.sequences] == [
        ("balon", "run"),
        ("korat", "."),
    ]
    assert all(answer.startswith("balon_") for answer in inputs.answers[:1])
    assert [len(answer.split()) for answer in inputs.answers] == [2, 2]


def test_what_is_left_out_is_said(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    inputs = tagged(tmp_path, "a b c d e\nf\ng\n", examples=2, max_tokens=3)
    assert inputs.lines == (1, 2) and inputs.sequences[0]["tokens"] == ("a", "b", "c")
    assert len(inputs.answers[0].split()) == 3
    more, cut = (record.getMessage() for record in caplog.records)
    assert more == f"{tmp_path}/input.txt has more: the first 2 are shown (--examples=2)"
    assert cut == (
        f"{tmp_path}/input.txt:1: 5 words: the model is given the first 3 alone (--max_tokens, and "
        "data.max_length=32)"
    )


def test_the_limit_of_the_model_holds_too(tmp_path):
    assert len(tagged(tmp_path, "a " * 50, max_tokens=64).sequences[0]["tokens"]) == 32


def test_a_treebank_can_be_read(tmp_path):
    row = "1\tbalon\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"
    assert tagged(tmp_path, row + "\n", format="conllu").sequences[0]["tokens"] == ("balon",)
    with pytest.raises(UserError, match=rf"^{tmp_path}/input\.txt:1: "):
        tagged(tmp_path, "no columns\n", format="conllu")


def test_what_cannot_be_read_is_named(tmp_path):
    saved = opened("tagging")
    given = {"examples": 1, "max_tokens": 8}
    with pytest.raises(UserError, match=r"cannot read '/none\.txt'"):
        read_inputs(saved, "/none.txt", **given)
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\n")
    with pytest.raises(UserError, match=rf"^{tmp_path}/bad\.txt:2: expected UTF-8"):
        read_inputs(saved, tmp_path / "bad.txt", examples=3, max_tokens=8)
    with pytest.raises(UserError, match="has nothing to show: every line is blank"):
        tagged(tmp_path, "\n \n")
    with pytest.raises(UserError, match="--format=tsv is not for task=pos_tagging, which has"):
        tagged(tmp_path, "a\n", format="tsv")
    with pytest.raises(UserError, match="--target is for task=translation"):
        tagged(tmp_path, "a\n", target=tmp_path / "input.txt")


def test_a_line_without_a_token_is_left_out(tmp_path, caplog):
    saved = opened("sentiment", model__pooling="attention")
    inputs = read_inputs(saved, write(tmp_path, "\u200b\ndull\n"), examples=8, max_tokens=8)
    assert inputs.lines == (2,)
    assert caplog.messages[-1:] == [f"{tmp_path}/input.txt:1: no token is left of it: not shown"]


def test_targets_stand_beside_their_lines(tmp_path):
    inputs = seen("translation").inputs
    assert inputs.lines == (1, 3) and inputs.answers == ("cats two sees dog", "man")
    first = inputs.sequences[0]
    assert first["read"][0] == "<s>" and first["written"][-1] == "</s>"
    assert first["read"][1:] == first["written"][:-1]
    assert "".join(first["written"][:-1]).replace("▁", " ").split() == inputs.answers[0].split()
    saved = opened("translation")
    source, target = write(tmp_path, "red\ndog\n"), write(tmp_path, "cats\n", "target.txt")
    with pytest.raises(UserError, match=r"target\.txt has fewer lines"):
        read_inputs(saved, source, target=target, examples=8, max_tokens=8)
    with pytest.raises(UserError, match=r"--target=.*input\.txt: .*target\.txt has fewer lines"):
        read_inputs(saved, target, target=source, examples=8, max_tokens=8)


@pytest.mark.slow
def test_a_translator_shows_its_own_translation(tmp_path):
    saved = opened("translation", decode__max_length=6)
    inputs = read_inputs(saved, write(tmp_path, "red dog\n"), examples=8, max_tokens=16)
    example = {"source": "red dog", "target": "", "line": 1, "file": "x"}
    from attention.tools.predicting import predict

    (outputs,) = predict(saved, [example], names=saved.task.ANSWERED)
    assert inputs.answers == (saved.task.write_output(example, outputs, format="text").rstrip(),)
    assert inputs.answers[0].split()
    assert len(inputs.sequences[0]["written"]) <= 7


class Pieces:
    def pieces(self, ids):
        return [{4: "▁the", 5: "<0x2E>", 6: " (￭", 7: "<0xC3>", 1: "□"}[i] for i in ids]


def test_surfaces():
    assert surfaces([2, 4, 5, 6, 7, 1, 3], Pieces()) == (
        *("<s>", "▁the", ".", "▁(￭", "<0xC3>", "□", "</s>"),
    )
