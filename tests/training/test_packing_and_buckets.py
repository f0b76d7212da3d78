"""Packed rows give what separate rows give; a variant that cannot pack gets length buckets."""

import sys
import types

import numpy as np
import pytest
from support.runs import losses, metrics_rows, small_config, small_overrides

from attention import configuration, variants
from attention.data.packing import bucket_lengths
from attention.errors import UserError
from attention.tools.evaluating import evaluate
from attention.training import loop
from attention.variants import scaled_dot


@pytest.mark.parametrize("options", [{}, {"model__position": "learned", "model__norm": "post"}])
def test_evaluation_packed_equals_one_sentence_a_row(tmp_path, options):
    packed = small_config(tmp_path / "data", train_steps=4, data__pack="always", **options)
    result = loop.train(packed, str(tmp_path / "run"))
    path = tmp_path / "run" / "config.json"
    path.write_text(path.read_text().replace('"pack": "always"', '"pack": "never"'))
    again = evaluate(str(tmp_path / "run"), split="dev", checkpoint=str(result["best_step"]))
    assert again["accuracy"] == result["eval"]["accuracy"]
    np.testing.assert_allclose(again["loss"], result["eval"]["loss"], rtol=1e-5)


def test_training_packed_and_unpacked_begin_at_the_same_loss(tmp_path):
    """One batch of everything: the same tokens, however they are laid out."""
    options = dict(
        train_steps=1,
        model__dropout_rate=0.0,
        model__word_dropout_rate=0.0,
        batch_tokens=None,
        batch_size=64,
    )
    for pack in ("always", "never"):
        config = small_config(tmp_path / "data", data__pack=pack, **options)
        loop.train(config, str(tmp_path / pack))
    # Unpacked, the first batch is one bucket; evaluation after the step sees different weights.
    # So compare the untrained model on dev.
    first = {}
    for pack in ("always", "never"):
        config = small_config(
            tmp_path / "data", data__pack=pack, **{**options, "optimizer__learning_rate": 0.0}
        )
        result = loop.train(config, str(tmp_path / f"{pack}-0"))
        first[pack] = result["eval"]["loss"]
    np.testing.assert_allclose(first["always"], first["never"], rtol=1e-5)


@pytest.fixture
def unpackable(monkeypatch):
    """A variant whose only fault is that it cannot keep packed sentences apart."""
    module = types.ModuleType("attention.variants.unpackable")
    module.__dict__.update({k: v for k, v in vars(scaled_dot).items() if not k.startswith("__")})
    module.MODES = scaled_dot.MODES - {"packed"}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = variants.names()
    monkeypatch.setattr(variants, "names", lambda: (*names, "unpackable"))
    return "unpackable"


def test_a_variant_that_cannot_pack_gets_length_buckets(tmp_path, unpackable, caplog):
    spec = f"configs/pos_tagging.py:dataset=files,size=tiny,variant={unpackable}"
    config = configuration.load_config(spec, small_overrides(tmp_path / "data"))
    assert config.data.pack == "never"
    programs = []
    trainer = loop.Trainer

    class Watched(trainer):
        def close(self):
            programs.append(self._train_step.num_programs)
            super().close()

    with caplog.at_level("INFO"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Trainer", Watched)
        result = loop.train(config, str(tmp_path / "run"))
    assert result["status"] == "complete"
    assert "no packing" in caplog.text
    assert len(losses(tmp_path / "run")) == 12
    assert 1 < programs[0] <= len(bucket_lengths(32))  # at most one program a bucket


def test_packing_it_all_the_same_is_refused(tmp_path, unpackable):
    spec = f"configs/pos_tagging.py:dataset=files,size=tiny,variant={unpackable}"
    with pytest.raises(UserError, match=r"data\.pack.*packed"):
        configuration.load_config(spec, small_overrides(tmp_path / "d", data__pack="always"))


def test_one_program_for_the_whole_packed_run(tmp_path):
    trainer, programs = loop.Trainer, []

    class Watched(trainer):
        def close(self):
            programs.append((self._train_step.num_programs, self._predictor.num_programs))
            super().close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Trainer", Watched)
        loop.train(
            small_config(tmp_path / "data", train_epochs=2, train_steps=None), str(tmp_path / "run")
        )
    assert programs == [(1, 2)]  # dev and test are of different sizes
    rows = metrics_rows(tmp_path / "run")
    assert rows[-1]["step"] > 2
