"""What the folder holds, and what it does not take the place of."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from visualization.made import TOKENS, example

from attention.errors import UserError
from attention.visualization.folder import (
    MANIFEST,
    open_folder,
    write_arrays,
    write_manifest,
    write_table,
    written_before,
)
from attention.visualization.results import mean_over_examples

EXAMPLES = [example(1), example(2)]
MEANS = mean_over_examples(EXAMPLES)


def test_arrays_hold_maps_and_tokens(tmp_path):
    write_arrays(EXAMPLES[0], tmp_path / "arrays" / "example-1.npz")
    with np.load(tmp_path / "arrays" / "example-1.npz") as arrays:  # without pickles
        assert sorted(arrays) == ["encoder-1", "pooling", "tokens"]
        assert np.array_equal(arrays["encoder-1"], EXAMPLES[0].maps[0].values)
        assert tuple(arrays["tokens"]) == TOKENS


def test_the_table_has_a_row_for_each_head_and_their_means(tmp_path):
    write_table(EXAMPLES, MEANS, tmp_path / "measures.csv")
    with (tmp_path / "measures.csv").open(encoding="utf-8", newline="") as stream:
        rows = [*csv.DictReader(stream)]
    assert [(row["example"], row["place"], row["head"]) for row in rows] == [
        (number, place, head)
        for number in ("1", "2", "all")
        for place, head in (("encoder-1", "1"), ("encoder-1", "2"), ("pooling", "all"))
    ]
    assert float(rows[1]["entropy"]) == pytest.approx(EXAMPLES[0].maps[0].heads[1].entropy, 1e-5)
    assert rows[2]["kind"] == "jacobian" and rows[2]["distance"] == ""


FILES = ["measures.csv"]


def filled(path):
    folder = open_folder(path, FILES)
    write_table(EXAMPLES, MEANS, folder / "measures.csv")
    write_manifest(folder, FILES, EXAMPLES, MEANS, {"step": 3})


def test_the_manifest_says_what_there_is(tmp_path):
    filled(tmp_path / "new" / "folder")
    manifest = json.loads((tmp_path / "new" / "folder" / MANIFEST).read_text(encoding="utf-8"))
    assert (manifest["step"], manifest["status"]) == (3, "complete")
    assert manifest["files"] == ["measures.csv", MANIFEST]
    assert [one["line"] for one in manifest["examples"]] == [2, 4]
    whole = manifest["over_all_examples"][0]
    assert whole["place"] == "encoder-1" and len(whole["heads"]) == 2
    assert whole["heads"][0]["first"] == pytest.approx(MEANS["encoder-1"][0].first)


def test_its_own_folder_is_emptied_of_its_own_files(tmp_path):
    filled(tmp_path / "seen")
    (tmp_path / "seen" / "notes.txt").write_text("mine")
    open_folder(tmp_path / "seen", ["index.html"])
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == ["notes.txt", MANIFEST]
    # One that was not finished is its own as well.
    assert written_before(tmp_path / "seen") == ["index.html", MANIFEST]
    assert written_before(tmp_path / "none") == []


@pytest.mark.parametrize("manifest", ["", "{}", "[]", '{"format": "x", "files": []}'])
def test_a_folder_of_others_is_left_alone(tmp_path, manifest):
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(UserError, match=r"holds files that visualize\.py has not written"):
        open_folder(tmp_path, FILES)
    assert (tmp_path / MANIFEST).exists()


def test_no_file_outside_is_removed(tmp_path):
    filled(tmp_path / "seen")
    path, victim = tmp_path / "seen" / MANIFEST, tmp_path / "victim.txt"
    victim.write_text("here")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "files": ["../victim.txt"]}), encoding="utf-8")
    with pytest.raises(UserError, match="has not written"):
        open_folder(tmp_path / "seen", FILES)
    assert victim.exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        open_folder(tmp_path / "file", FILES)
