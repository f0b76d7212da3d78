"""Runs that train at once on every task: each is what it is alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.pairs import pairs_config
from support.reviews import review_config
from support.runs import losses, metrics_rows

from attention.errors import UserError
from attention.training import loop
from attention.training.shared import Shared
from attention.training.vectorize import check_alike, have_own_batches, train_together

POINTS = (
    {"seed": 1, "optimizer__learning_rate": 3e-3},
    {"seed": 2, "model__dropout_rate": 0.3, "label_smoothing": 0.2},
)
# What searches cost is their programs, for dev and test.
QUICK = {"decode__beam_size": 1, "eval_batch_size": 1, "decode__max_length": 6}


@pytest.fixture
def shared() -> Shared:
    """Kept for all that a test trains: each program is compiled once."""
    return Shared()


def compare_with_alone(configs: list[Any], folder: Path, shared: Shared) -> list[list[float]]:
    """Trains the configs at once and each alone; returns the losses of each."""
    outcomes = train_together(configs, workdirs(folder, "run"), shared=shared)
    assert [outcome.error for outcome in outcomes] == [None, None]
    together, alone = workdirs(folder, "run"), workdirs(folder, "alone")
    for index, (config, outcome) in enumerate(zip(configs, outcomes, strict=True)):
        expected = loop.train(config, alone[index], shared=shared)
        ours, theirs = losses(Path(together[index])), losses(Path(alone[index]))
        assert len(ours) == config.train_steps and ours == pytest.approx(theirs, abs=1e-4)
        result = outcome.result
        assert result is not None and result["runs_at_once"] == 2
        assert result["status"] == "complete" and expected["runs_at_once"] == 1
        assert result["eval"]["loss"] == pytest.approx(expected["eval"]["loss"], abs=1e-3)
        assert result["eval"].keys() == expected["eval"].keys()
    first, second = (losses(Path(workdir)) for workdir in together)
    assert first != pytest.approx(second, abs=1e-2)
    return [first, second]


def workdirs(folder: Path, name: str) -> list[str]:
    return [str(folder / f"{name}{index}") for index in range(len(POINTS))]


def padding(workdir: Path) -> list[float]:
    """The share of positions of each step's batch that no word fills."""
    rows = metrics_rows(workdir)
    return [row["train/padding_fraction"] for row in rows if "train/padding_fraction" in row]


def compare_orders(make: Any, folder: Path, shared: Shared) -> None:
    """Compares runs with one order of the data for both, and with an order each."""
    found = []
    for order_seed in (5, None):
        common = {"train_steps": 4, "data__pack": "always", "data__order_seed": order_seed}
        configs = [make(folder / "data", **common, **point) for point in POINTS]
        assert have_own_batches(configs) == (order_seed is None)
        found.append(compare_with_alone(configs, folder / f"order-{order_seed}", shared))
    (_, one), (_, other) = found
    assert one != pytest.approx(other, abs=1e-4)
    # One takes a batch for both runs, one a batch each.
    assert shared.get(("mapped step", 2), lambda: None).num_programs == 2


def test_sentiment(tmp_path, shared):
    compare_orders(review_config, tmp_path, shared)


@pytest.mark.slow
def test_sentiment_without_packing(tmp_path, shared):
    common: dict[str, Any] = {"train_steps": 5, "data__order_seed": 5, "data__pack": "never"}
    configs = [review_config(tmp_path / "data", **{**common, **point}) for point in POINTS]
    compare_with_alone(configs, tmp_path, shared)


@pytest.mark.parametrize("model", ["", "model=recurrent,cross=additive"])
def test_translation(tmp_path, shared, model):
    def make(folder: Path, **overrides: Any) -> Any:
        return pairs_config(folder, model, **QUICK, **overrides)

    compare_orders(make, tmp_path, shared)


@pytest.mark.parametrize(
    ("make", "own"),
    [(review_config, {}), pytest.param(pairs_config, QUICK, marks=pytest.mark.slow)],
)
def test_each_run_draws_its_own_pieces_of_words(tmp_path, shared, make, own):
    """One order of the examples, and other subwords of them: by the seeds, which differ."""
    common = {"train_steps": 4, "data__pack": "always", "data__order_seed": 5, **own}
    common |= {"data__subword_regularisation": 0.3}
    configs = [make(tmp_path / "data", **common, **point) for point in POINTS]
    compare_with_alone(configs, tmp_path, shared)
    assert have_own_batches(configs)
    first, second = (padding(Path(workdir)) for workdir in workdirs(tmp_path, "run"))
    assert first != second  # with one split into words they would be equal


def test_pieces_that_are_drawn_by_the_seed_need_packing_or_one_seed(tmp_path):
    common = {"data__order_seed": 5, "data__subword_regularisation": 0.1}

    def two(packing: str, seeds: tuple[int, int]) -> list[Any]:
        given = {**common, "data__pack": packing}
        return [review_config(tmp_path / "data", **given, seed=seed) for seed in seeds]

    with pytest.raises(UserError, match=r"subword_regularisation=0\.1 gives each seed batches of"):
        check_alike(two("never", (0, 1)))
    check_alike(two("never", (1, 1)))
    check_alike(two("always", (0, 1)))
