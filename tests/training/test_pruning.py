"""A run that is to be pruned, and asked to stop by a signal, at one and the same evaluation."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from support.runs import small_config

from attention.errors import Interrupted
from attention.training.loop import train


def test_a_decision_to_prune_outlives_a_signal_and_a_signal_alone_saves(tmp_path):
    config = small_config(tmp_path / "data", train_steps=4, eval_every_steps=2)
    interrupt = SimpleNamespace(requested=None)

    def pruned_by(answer: bool):
        def prune(step, metrics) -> bool:
            interrupt.requested = "SIGTERM"
            return answer

        return prune

    result = train(config, str(tmp_path / "a"), prune=pruned_by(True), interrupt=interrupt)
    assert (result["status"], result["step"]) == ("pruned", 2)
    interrupt.requested = None
    with pytest.raises(Interrupted, match="SIGTERM"):
        train(config, str(tmp_path / "b"), prune=pruned_by(False), interrupt=interrupt)
    written = json.loads((tmp_path / "b" / "result.json").read_text())
    assert (written["status"], written["step"]) == ("interrupted", 2)
