"""Plots of a report: what they show, and where names stand."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.fake_runs import write_run

from attention.comparison import pareto, plots
from attention.comparison.comparing import Options, compare
from attention.comparison.labels import apart, beside_points, within

pytestmark = pytest.mark.fast


def test_the_band_of_a_curve_is_the_deviation_of_a_sample(tmp_path, monkeypatch):
    bands = []
    monkeypatch.setattr(
        plots.Axes, "fill_between", lambda self, x, low, high, **style: bands.append((low, high))
    )
    for seed, first in enumerate((0.5, 0.7)):
        write_run(tmp_path / f"{seed}", seed=seed, curve=(first,), dev=0.8)
    found = compare([str(tmp_path)], Options())
    plots.draw(found.chosen, name="x")
    ((low, high),) = bands
    sd = 20 / 2**0.5
    assert low.tolist() == pytest.approx([60 - sd, 80]) and high[0] == pytest.approx(60 + sd)


def test_a_single_evaluation_is_a_point_with_its_deviation(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        plots.Axes,
        "errorbar",
        lambda self, x, y, yerr=None, **style: drawn.append((x, yerr, style)),
    )
    for seed, score in enumerate((0.7, 0.8)):
        write_run(tmp_path / f"{seed}", seed=seed, curve=(), dev=score)
    plots.learning_curves(compare([str(tmp_path)], Options()).chosen, name="x")
    ((steps, sd, style),) = drawn
    assert len(steps) == 1 and style["marker"] == "o"
    assert sd.tolist() == pytest.approx([10 / 2**0.5])


def test_the_front_holds_what_no_other_beats():
    xs, ys = np.array([1.0, 2, 2, 3, 4]), np.array([0.5, 0.4, 0.7, 0.7, 0.9])
    assert pareto.front(xs, ys) == [0, 2, 4]
    assert pareto.front(xs, -ys) == [0, 1]


def test_a_price_of_two_percent_is_none():
    assert pareto.front([100, 102, 103], [0.5, 0.7, 0.6]) == [1]
    assert pareto.front([100, 103], [0.5, 0.7]) == [0, 1]
    assert pareto.front([100, 101], [0.5, 0.5]) == [0]
    assert pareto.are_equal([100, 102]) and not pareto.are_equal([100, 103])
    assert not pareto.are_equal([100])


def names_and_leaders(xs, ys, names):
    """Draws points with their names: those written, and those that are joined to their point."""
    axes = Figure(figsize=(5, 4)).subplots()
    axes.plot(xs, ys, "o")
    beside_points(axes, np.array(xs), np.array(ys), names)
    return (
        {text.get_text() for text in axes.texts},
        {text.get_text() for text in axes.texts if text.arrow_patch is not None},
    )


def test_a_name_away_from_its_point_is_joined_to_it():
    written, joined = names_and_leaders([0.0, 1.0], [0.0, 1.0], ["a", "b"])
    assert written == {"a", "b"} and not joined
    names = [f"name{number}" for number in range(6)]
    written, joined = names_and_leaders(
        [0.5] * 6 + [0.0, 1.0], [0.5 + 1e-3 * i for i in range(6)] + [0.0, 1.0], [*names, "c", "d"]
    )
    assert written == {*names, "c", "d"} and joined == set(names[2:])


def test_names_stay_inside_the_axes():
    axes = Figure(figsize=(5, 4)).subplots()
    xs, ys = np.array([0.5] * 16 + [0.0, 1.0]), np.array([0.0] * 16 + [0.0, 1.0])
    axes.plot(xs, ys, "o")
    beside_points(axes, xs, ys, [f"name{number}" for number in range(len(xs))])
    axes.figure.draw_without_rendering()
    window = axes.get_window_extent()
    heights = [text.get_window_extent() for text in axes.texts]
    middles = [(box.y0 + box.y1) / 2 for box in heights]
    assert len(middles) > 4 and all(window.y0 <= middle <= window.y1 for middle in middles)


def test_names_that_find_no_place_are_left_to_the_table():
    names = [f"name{number}" for number in range(60)]
    written, _ = names_and_leaders([0.5] * 60 + [0.0, 1.0], [0.5] * 60 + [0, 1], [*names, "", ""])
    assert names[0] in written and len(written) < 40


@pytest.mark.parametrize(("dear", "line"), [(0.8, True), (0.4, False)])
def test_a_front_of_one_point_is_no_line(tmp_path, dear, line):
    write_run(tmp_path / "a", test=0.6, result={"train_seconds": 1.0})
    write_run(tmp_path / "b", variant="cnn", test=dear, result={"train_seconds": 9.0})
    found = compare([str(tmp_path)], Options())
    (plot,) = [p for p in plots.draw(found.chosen, name="x") if p.name == "quality_time-x"]
    assert (">Pareto front<" in plot.svg) == line


def test_labels_are_moved_apart_as_little_as_needed():
    assert apart([0, 1, 50], 10) == [-4.5, 5.5, 50]
    assert apart([0, 30, 60], 10) == [0, 30, 60]
    moved = apart([0, 1, 2, 11], 10)
    assert np.diff(moved).min() >= 10 - 1e-9 and np.mean(moved) == pytest.approx(3.5)


def test_labels_are_pressed_between_the_ends_of_the_axes():
    assert within([-5, 5, 30], 0, 40) == [0, 10, 30]
    assert within([10, 38, 48], 0, 40) == [10, 30, 40]
    assert within([5, 15], 0, 40) == [5, 15]
    assert within([-5, 45], 0, 40) == [-5, 45]  # no room: as they are
    assert within([], 0, 40) == []
