"""The whole Transformer: packed pairs are pairs alone, and tables are tied as they should be."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.transformers import DIM, SIZE, compiled, make_config, make_transformer, rows

from attention import positions
from attention.core.dropout import Rate
from attention.errors import UserError
from attention.models.token_loss import token_loss


def by_pair(logits, layout, batch):
    """Returns the logits of each pair, by number."""
    found = {}
    for row, numbers in enumerate(layout):
        for segment, number in enumerate(numbers, 1):
            found[number] = np.asarray(logits)[row][batch["target_segment_ids"][row] == segment]
    return found


SETTINGS = [
    {"position": "sinusoidal"},
    {"position": "rope", "norm": "post"},
    {"position": "floater", "position_merge": "concat"},
    *({"position": name, "norm": norm} for name in positions.names() for norm in ("pre", "post")),
]


@pytest.mark.parametrize(
    "settings",
    [s if i < 3 else pytest.param(s, marks=pytest.mark.slow) for i, s in enumerate(SETTINGS)],
)
def test_packed_pairs_are_pairs_alone(settings):
    run = compiled(make_transformer(**settings))
    layouts = ([(0, 1, 2)], 12), ([(2, 0), (1,)], 12), ([(1,), (), (0,), (2,)], 15)
    found = []
    for layout, length in layouts:
        batch = rows(layout, length)
        found.append(by_pair(run(**batch), layout, batch))
    for number in range(3):
        for other in found[1:]:
            np.testing.assert_allclose(other[number], found[0][number], rtol=0, atol=2e-5)
    assert np.abs(found[0][0] - found[0][1][:4]).max() > 0.1


def test_padding_and_other_pairs_never_show():
    run = compiled(make_transformer())
    batch = rows([(0, 1), (2,)], 12)
    logits = np.asarray(run(**batch))
    real = batch["target_segment_ids"] > 0
    for side, ids in (("source", "source_segment_ids"), ("inputs", "target_segment_ids")):
        for segment in (0, 1, 2):  # padding, and each pair of the first row
            own = batch[ids] == segment
            if segment:
                own[1] = False
            other = np.where(own, 4 + (batch[side] + 2) % 15, batch[side])
            changed = np.any(np.asarray(run(**{**batch, side: other})) != logits, axis=-1)
            pair = (batch["target_segment_ids"] == segment) & (np.arange(2)[:, None] == 0)
            np.testing.assert_array_equal(changed & real, pair & real)


@pytest.mark.fast
def test_segments_follow_from_padding_where_none_are_given():
    run = compiled(make_transformer())
    batch = rows([(0,), (2,)], 9)
    bare = run(batch["source"], batch["inputs"])
    real = batch["target_segment_ids"] > 0
    np.testing.assert_array_equal(np.asarray(bare)[real], np.asarray(run(**batch))[real])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_pairs_without_source_and_empty_rows_are_finite(norm):
    graphdef, parameters, rest = nnx.split(make_transformer(norm=norm), nnx.Param, ...)
    batch = rows([(0, 1), (2,), ()], 12)
    for name in ("source", "source_segment_ids"):
        batch[name][0, :3] = 0  # the first pair has none, the second has
        batch[name][1] = 0
    real = (batch["target_segment_ids"] > 0)[..., None]

    def loss(parameters):
        logits = nnx.merge(graphdef, parameters, rest)(**batch)
        return jnp.sum(jnp.where(real, jnp.sin(logits), 0.0)), logits

    gradients, logits = jax.jit(jax.grad(loss, has_aux=True))(parameters)
    assert np.all(np.isfinite(logits))
    for path, gradient in jax.tree.leaves_with_path(gradients):
        assert np.all(np.isfinite(gradient)), path


def test_what_a_table_is_used_for_is_how_it_is_tied():
    batch = rows([(0, 1)], 12)
    embedded = {"all": 1, "output": 2, "none": 3}
    for tied, tables in embedded.items():
        sizes = (SIZE, SIZE) if tied == "all" else (SIZE + 4, SIZE)
        model = make_transformer(tied=tied, sizes=sizes)
        state = nnx.to_flat_state(nnx.state(model, nnx.Param))
        found = [leaf[...].shape for path, leaf in state if path[-1] == "embedding"]
        assert len(found) == tables and set(found) <= {(s, DIM) for s in sizes}
        states = compiled(model, "states")(**batch)
        want = np.asarray(states) @ np.asarray(model.output_embed.embedding[...]).T
        np.testing.assert_allclose(compiled(model)(**batch), want, rtol=0, atol=1e-4)
        assert (model.output_embed is model.target_embed) == (tied != "none")
        # Vectors of either side come in multiplied by √d.
        source_embed = model.target_embed if tied == "all" else model.source_embed
        x = np.sqrt(DIM) * np.asarray(source_embed.embedding[...])[batch["source"]]
        ids = {"segment_ids": batch["source_segment_ids"]}
        want = compiled(model.encoder)(x.astype(np.float32), **ids)
        got = compiled(model, "encode")(batch["source"], **ids)
        np.testing.assert_allclose(got.states, want, rtol=0, atol=1e-5)


@pytest.mark.fast
def test_parameters_are_float32_and_counted():
    state = nnx.to_flat_state(nnx.state(make_transformer(dtype="bfloat16"), nnx.Param))
    assert all(leaf[...].dtype == jnp.float32 for _, leaf in state)
    attention, norm = 4 * (DIM * DIM + DIM), 2 * DIM
    mlp = 2 * DIM * 10 + 10 + DIM
    blocks = (attention + mlp + 2 * norm) + (2 * attention + mlp + 3 * norm)
    assert sum(leaf[...].size for _, leaf in state) == SIZE * DIM + blocks + 2 * norm


def test_bfloat16_is_near_float32_and_its_logits_are_float32():
    batch = rows([(0, 1), (2,)], 12)
    wide, narrow = (compiled(make_transformer(dtype=d))(**batch) for d in ("float32", "bfloat16"))
    assert narrow.dtype == jnp.float32
    real = batch["target_segment_ids"] > 0
    error = np.abs(wide - narrow)[real].max()
    assert 0 < error < 0.06 * np.abs(wide[real]).max()


def test_dropout_has_one_rate_everywhere_and_needs_rngs():
    model, batch = make_transformer(dropout_rate=0.4), rows([(0, 1)], 12)
    run = compiled(model)
    np.testing.assert_array_equal(run(**batch), compiled(make_transformer())(**batch))
    draws = [
        run(**batch, rngs=nnx.Rngs(dropout=seed))[batch["target_segment_ids"] > 0]
        for seed in (0, 1)
    ]
    assert np.abs(draws[0] - draws[1]).max() > 1e-2
    # At each input; in encoder blocks attention and residual, in decoder blocks two and one.
    rates = jax.tree.leaves(nnx.state(model, Rate))
    assert len(rates) == 2 + 2 + 3 and all(rate == np.float32(0.4) for rate in rates)


def test_the_loss_without_logits_trains_the_same_parameters():
    graphdef, parameters, rest = nnx.split(make_transformer(), nnx.Param, ...)
    batch = rows([(0, 1), (2,)], 12)
    labels = np.where(batch["target_segment_ids"] > 0, np.roll(batch["inputs"], -1, 1), -1)

    def fused(parameters):
        model = nnx.merge(graphdef, parameters, rest)
        table = model.output_embed.embedding[...]
        return token_loss(model.states(**batch), table, labels).loss

    def plain(parameters):
        logits = nnx.merge(graphdef, parameters, rest)(**batch)
        loss = -jax.nn.log_softmax(logits)[jnp.arange(2)[:, None], jnp.arange(12)[None], labels]
        return jnp.sum(jnp.where(labels >= 0, loss, 0.0))

    for one, other in zip(
        *(jax.tree.leaves(jax.jit(jax.grad(f))(parameters)) for f in (fused, plain)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tied": "al"}, r"model\.tied_embeddings='al'.*did you mean 'all'"),
        ({"sizes": (SIZE, 7)}, r"19 ids .* 7.*model\.tied_embeddings=output"),
        ({"sizes": (0, 0)}, "source_size=0"),
        ({"dim": 25}, r"num_heads=4.*model\.dim or model\.num_heads"),
        ({"num_layers": 0}, r"model\.num_layers=0"),
        ({"position": "rope", "position_merge": "concat"}, r"model\.position_merge"),
        ({"position": "learned", "max_length": None}, r"data\.max_length"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(UserError, match=words):
        make_transformer(**settings)


@pytest.mark.fast
def test_two_widths_cannot_share_a_table():
    from attention.models.transformer import Transformer

    wide, narrow = make_transformer(), make_transformer(dim=12)
    sizes = {"source_size": SIZE, "target_size": SIZE}
    with pytest.raises(UserError, match=r"24 .* 12.*model\.dim"):
        Transformer(wide.encoder, narrow.decoder, **sizes, rngs=nnx.Rngs(0))
    assert make_config().dim == DIM
