"""A small config, and attention variants made up for the purpose."""

from __future__ import annotations

import pytest
from ml_collections import ConfigDict
from support.made_up_variants import VARIANTS

from attention import variants
from attention.configuration.fields import duration, optional


@pytest.fixture
def made_up_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts variants that do not pack, or know one direction, in place of the real ones."""
    monkeypatch.setattr(variants, "names", lambda: tuple(VARIANTS))
    monkeypatch.setattr(variants, "get", VARIANTS.__getitem__)
    monkeypatch.setattr(variants, "make", lambda name, **settings: {})


@pytest.fixture
def config() -> ConfigDict:
    """A config with a leaf of every kind; no task has it."""
    config = ConfigDict()
    config.task = "toy"
    config.size = "tiny"
    config.dataset = "files"
    config.seed = 0
    config.batch_size = optional(None, int)
    config.batch_tokens = optional(2048, int)
    config.train_steps = optional(None, int)
    config.train_epochs = optional(2.0, float)
    config.vocab_path = optional(None, str)
    config.log_every_steps = duration(10)
    config.optimizer = ConfigDict()
    config.optimizer.learning_rate = 0.1
    config.optimizer.weight_decay = 0.01
    config.optimizer.warmup_steps = duration("5%")
    config.optimizer.nesterov = False
    config.optimizer.betas = (0.9, 0.98)
    config.optimizer.layers = (1, 2, 3)
    config.optimizer.frozen = ("word", "char")
    config.optimizer.empty = ()
    config.optimizer.decays = (1, 0.5)
    config.model = ConfigDict()
    config.model.attention = ConfigDict({"variant": "scaled_dot", "num_kv_heads": None})
    return config.lock()
