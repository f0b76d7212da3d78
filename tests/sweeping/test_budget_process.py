"""A budget solved for real variants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.runs import REPOSITORY, SPEC, small_config, small_overrides

from attention.errors import UserError
from attention.sweeping.budget_process import answer, ask_another
from attention.training.costs import Costs


def test_variants_get_the_parameters_of_the_reference(tmp_path: Path) -> None:
    overrides = small_overrides(tmp_path / "data", model__mlp_dim=64)
    flags = [[key, str(value)] for key, value in overrides.items()]
    names = ("scaled_dot", "rnn", "gated", "scaled_dot")
    request = {
        "spec": SPEC,
        "flags": flags,
        "budget": {"kind": "params", "solve": "model.mlp_dim", "like": {}},
        "points": [{"arg": f"variant={name},seed={i}"} for i, name in enumerate(names)],
        "reference": None,
        "solved": [],
        "measured_on": None,
    }
    found = answer(json.loads(json.dumps(request)))
    first, rnn, gated, last = found["points"]
    assert first == last and first["value"] == 64 and found["measured_on"] is None
    assert first["amount"] == found["reference"]["amount"]
    costs = Costs(tmp_path / "costs")
    for each, name in ((rnn, "rnn"), (gated, "gated")):
        assert each["value"] < 64
        config = small_config(
            tmp_path / "data", spec=f"variant={name}", model__mlp_dim=each["value"]
        )
        assert (
            costs.parameters(config) == each["amount"] == pytest.approx(first["amount"], rel=0.01)
        )


@pytest.mark.slow
def test_another_process_counts_and_a_wrong_reference_is_told(tmp_path: Path) -> None:
    overrides = small_overrides(tmp_path / "data")
    request = {
        "spec": SPEC,
        "flags": [[key, str(value)] for key, value in overrides.items()],
        "budget": {"kind": "flops", "solve": "model.mlp_dim", "like": {}},
        "points": [{"arg": "variant=rnn"}, {"model.num_heads": 3}],
        "reference": None,
        "solved": [],
        "measured_on": None,
    }
    found = ask_another(request, workers=2)
    rnn, wrong = found["points"]
    assert rnn["amount"] == pytest.approx(found["reference"]["amount"], rel=0.02)
    assert "model.dim=16 must be a multiple of model.num_heads=3" in wrong["error"]
    like = {**request, "budget": {**request["budget"], "like": {"model.dmi": 3}}}
    with pytest.raises(UserError, match="did you mean 'model"):
        ask_another(like, workers=1)


def test_a_wrong_budget_is_told_before_jax_is_loaded(tmp_path: Path) -> None:
    words = [sys.executable, "-X", "importtime", "sweep.py", "--config=configs/pos_tagging.py"]
    words += [f"--workdir={tmp_path}/s", "--budget=parms"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 2 and "parms" in done.stderr
    assert "attention.command" in done.stderr
    assert not any(line.split("|")[-1].strip() == "jax" for line in done.stderr.splitlines())
