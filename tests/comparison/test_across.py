"""Studies over a number: which panels one plot shows, and data that are others at each value."""

from __future__ import annotations

import pytest
from support.fake_runs import write_run

from attention.comparison import plots
from attention.comparison.comparing import Options, compare, families
from attention.errors import UserError

pytestmark = pytest.mark.fast


def write_probe(folder, distance: int, variant: str, *, eval_hash: str = "", **keys):
    """A run of a probe, whose data are others at each distance, and its examples longer."""
    hashes = {"eval_hash": eval_hash or f"e{distance}", "data_hash": f"d{distance}"}
    name = "-".join(map(str, (distance, variant, *keys.values())))
    write_run(folder / name, variant=variant, data__distance=distance, result=hashes,
              data__max_length=2 * distance, **keys)  # fmt: skip


def test_each_distance_is_a_panel_and_one_plot_shows_them_all(tmp_path):
    for distance in (512, 8, 32):
        for variant in ("scaled_dot", "cnn"):
            for seed in (0, 1):
                write_probe(tmp_path, distance, variant, seed=seed)
    found = compare([str(tmp_path)], Options())
    panels = found.panels()
    assert sorted(len(members) for members in panels.values()) == [2, 2, 2]
    (family,) = families(panels.values())
    assert family[0] == "data.distance"
    assert [dict(members[0].group.panel)["data.distance"] for members in family[1]] == [8, 32, 512]
    text = plots.draw_across(family[1], family[0], name="x").svg
    assert "distance" in text and text.count("scaled_dot") >= 1


def test_one_variant_alone_is_not_compared_with_itself_elsewhere(tmp_path):
    for distance in (8, 32):
        write_probe(tmp_path, distance, "scaled_dot")
    write_probe(tmp_path, 64, "cnn")
    panels = compare([str(tmp_path)], Options()).panels()
    assert [[c.row.variant for c in members] for members in panels.values()] == [
        ["scaled_dot"],
        ["cnn"],
        ["scaled_dot"],
    ] or sorted(len(members) for members in panels.values()) == [1, 1, 1]
    assert [key for key, _ in families(panels.values())] == ["data.distance"]


def test_other_test_data_at_one_distance_are_refused_as_ever(tmp_path):
    write_probe(tmp_path, 8, "scaled_dot")
    write_probe(tmp_path, 8, "cnn", eval_hash="other")
    with pytest.raises(UserError, match="eval_hash"):
        compare([str(tmp_path)], Options())


def test_a_key_that_varies_by_itself_parts_the_plots(tmp_path):
    for distance in (8, 32):
        for variant in ("scaled_dot", "cnn"):
            for layers in (1, 2):
                write_probe(tmp_path, distance, variant, model__num_layers=layers)
    found = compare([str(tmp_path)], Options())
    keys = [key for key, _ in families(found.panels().values())]
    assert sorted(keys) == ["data.distance"] * 2 + ["model.num_layers"] * 2
