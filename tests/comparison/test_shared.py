"""What a report says that all rows share, and in what they differ."""

from __future__ import annotations

import pytest
from support.fake_runs import write_run

from attention.comparison.comparing import Options, compare
from attention.comparison.page import page
from attention.comparison.shared import differences, shared_settings
from attention.comparison.tables import markdown

pytestmark = pytest.mark.fast


@pytest.fixture
def comparison(tmp_path):
    """Two variants with two seeds each, one of more layers and with an option of its own."""
    for seed in (0, 1):
        write_run(tmp_path / f"a{seed}", seed=seed, model__num_layers=3, log_every_steps=seed + 1)
        more = {"model__attention__width": 5, "optimizer__learning_rate": 0.25}
        write_run(tmp_path / f"b{seed}", seed=seed, variant="cnn", model__num_layers=2, **more)
    return compare([str(tmp_path)], Options())


def test_what_is_alike_and_what_is_not(comparison):
    (members,) = comparison.panels().values()
    assert sorted(differences(members)) == [
        "model.num_layers: 3 (scaled_dot); 2 (cnn)",
        "optimizer.learning_rate: 0.001 (scaled_dot); 0.25 (cnn)",
    ]
    same = shared_settings(members)
    assert {"model.dim=16", "optimizer.warmup_steps=5%", "seed=0, 1"} <= set(same)
    told = ("num_layers", "learning_rate", "log_every", "width", "variant")
    assert not [entry for entry in same if any(word in entry for word in told)]


def test_page_and_table_say_it(comparison):
    (key,) = comparison.panels()
    html = page(comparison, {key: ()}, command="compare.py")
    for text in (html, markdown(comparison)):
        assert "the rows differ in:" in text
        assert "model.num_layers: 3 (scaled_dot); 2 (cnn)" in text
    assert "model.dim=16" in html


def test_rows_alike_have_no_such_list(tmp_path):
    for variant in ("scaled_dot", "cnn"):
        write_run(tmp_path / variant, variant=variant)
    comparison = compare([str(tmp_path)], Options())
    assert "rows differ in" not in markdown(comparison)
    assert "rows differ in" not in page(comparison, {}, command="compare.py")
