"""Runs that train at once on every task: each is what it is alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.pairs import pairs_config
from support.reviews import review_config
from support.runs import losses

from attention.errors import UserError
from attention.training import loop
from attention.training.vectorize import check_alike, train_together

POINTS = (
    {"seed": 1, "optimizer__learning_rate": 3e-3},
    {"seed": 2, "model__dropout_rate": 0.3, "label_smoothing": 0.2},
)


def compare_with_alone(configs: list[Any], folder: Path) -> None:
    """Trains the configs at once, and the second alone as well."""
    outcomes = train_together(configs, [str(folder / "run0"), str(folder / "run1")])
    assert [outcome.error for outcome in outcomes] == [None, None]
    alone = loop.train(configs[1], str(folder / "alone"))
    expected, ours = losses(folder / "alone"), losses(folder / "run1")
    assert len(ours) == len(expected) and ours == pytest.approx(expected, abs=1e-4)
    assert losses(folder / "run0") != pytest.approx(ours, abs=1e-2)
    result = outcomes[1].result
    assert result is not None and result["runs_at_once"] == 2 and result["status"] == "complete"
    assert result["eval"]["loss"] == pytest.approx(alone["eval"]["loss"], abs=1e-3)
    assert result["eval"].keys() == alone["eval"].keys()


@pytest.mark.parametrize("packing", ["always", pytest.param("never", marks=pytest.mark.slow)])
def test_sentiment(tmp_path, packing):
    common: dict[str, Any] = {"train_steps": 5, "data__order_seed": 5, "data__pack": packing}
    configs = [review_config(tmp_path / "data", **{**common, **point}) for point in POINTS]
    compare_with_alone(configs, tmp_path)


@pytest.mark.parametrize("model", ["", pytest.param("model=recurrent", marks=pytest.mark.slow)])
def test_translation(tmp_path, model):
    common: dict[str, Any] = {"train_steps": 5, "data__order_seed": 5}
    # What searches cost is their programs: of dev and test, of both runs and of the one alone.
    common |= {"decode__beam_size": 1, "eval_batch_size": 1, "decode__max_length": 6}
    configs = [pairs_config(tmp_path / "data", model, **{**common, **point}) for point in POINTS]
    compare_with_alone(configs, tmp_path)


def test_pieces_that_are_drawn_by_the_seed_need_packing_or_one_seed(tmp_path):
    common = {"data__order_seed": 5, "data__subword_regularisation": 0.1}

    def two(packing: str, seeds: tuple[int, int]) -> list[Any]:
        given = {**common, "data__pack": packing}
        return [review_config(tmp_path / "data", **given, seed=seed) for seed in seeds]

    with pytest.raises(UserError, match=r"subword_regularisation=0\.1 gives each seed batches of"):
        check_alike(two("never", (0, 1)))
    check_alike(two("never", (1, 1)))
    check_alike(two("always", (0, 1)))
