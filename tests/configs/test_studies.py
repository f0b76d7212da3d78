"""The studies: every point is a config that can run, and budgets are equal."""

from __future__ import annotations

from collections import Counter

import jax
import pytest
from flax import nnx

from attention import assembly, tasks, variants
from attention.configuration import load_config
from attention.configuration.load import load_module, load_sweep
from attention.data.sources import delayed_copy, key_value_recall
from attention.errors import UserError
from configs.studies import parts

FOLDER = "configs/studies"
COMPARISONS = ("tagging_variants", "sentiment_variants", "translation_variants")


def only_seed_0(point) -> bool:
    return "seed=0" in point["arg"]


@pytest.mark.fast
@pytest.mark.parametrize("study", COMPARISONS)
def test_each_variant_has_the_same_rates_and_seeds(study):
    points = load_sweep(f"{FOLDER}/{study}.py")
    rates = {point["optimizer.learning_rate"] for point in points}
    arguments = [dict(pair.split("=") for pair in p["arg"].split(",")) for p in points]
    counts = Counter(argument["variant"] for argument in arguments)
    assert len(counts) >= 8 and set(counts.values()) == {3 * len(rates)}
    assert Counter(a["seed"] for a in arguments) == dict.fromkeys("012", len(points) // 3)
    assert len({tuple(sorted(point.items())) for point in points}) == len(points)
    if study == "tagging_variants":
        encoders = {"bidirectional", "causal"}
        assert set(counts) == {n for n in variants.names() if variants.get(n).MODES & encoders}


@pytest.mark.parametrize("study", COMPARISONS)
def test_parameters_and_steps_are_equal(study):
    module = load_module(f"{FOLDER}/{study}.py")
    arguments = dict.fromkeys(point["arg"] for point in load_sweep(f"{FOLDER}/{study}.py"))
    configs = [module.get_config(argument) for argument in arguments if "seed=0" in argument]
    lengths = {(config.train_steps, config.train_epochs, config.batch_tokens) for config in configs}
    assert len(lengths) == 1
    sizes = {config.model.attention.variant: num_params(config) for config in configs}
    usual = sizes["scaled_dot"]
    assert {name: n for name, n in sizes.items() if abs(n - usual) > 0.01 * usual} == {}


def num_params(config) -> int:
    """The parameters of the blocks, without embeddings, of which a width is no part."""

    def make():
        rngs = nnx.Rngs(0)
        if config.task != "translation":
            return assembly.make_encoder(config, rngs)
        sizes = {"source_size": 9, "target_size": 9, "end_id": 2}
        return assembly.make_sequence_to_sequence(config, **sizes, rngs=rngs)

    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(nnx.eval_shape(make), nnx.Param)))


@pytest.mark.fast
def test_a_variant_that_only_looks_back_is_counted_twice():
    config = load_config(f"{FOLDER}/tagging_variants.py:variant=scaled_dot")
    assert parts.equal_mlp_dim(config, "attention") == config.model.mlp_dim
    config.model.unlock()
    config.model.direction = "two_pass"
    more = num_params(config) - num_params(load_config(f"{FOLDER}/tagging_variants.py"))
    width = parts.equal_mlp_dim(config, "attention")
    assert width == config.model.mlp_dim - round(more / 2 / (2 * config.model.dim + 1)) > 0
    config.model.mlp_dim = 100
    with pytest.raises(UserError, match="has 16,640 more parameters than scaled_dot"):
        parts.equal_mlp_dim(config, "attention")


@pytest.mark.fast
def test_options_are_those_of_the_studies():
    window = load_config(f"{FOLDER}/sentiment_variants.py:variant=sliding_window")
    assert window.model.attention.window == 4
    cnn = load_config(f"{FOLDER}/translation_variants.py:variant=cnn")
    assert cnn.model.attention.width == cnn.model.decoder_attention.width == 3
    assert cnn.model.cross_attention.variant == "scaled_dot"


@pytest.mark.fast
@pytest.mark.parametrize("task", ["pos_tagging", "sentiment"])
def test_sizes_share_everything_else(task):
    file = f"{FOLDER}/data_size.py"
    configs = [load_config(f"{file}:task={task}", p) for p in load_sweep(file) if only_seed_0(p)]
    assert {config.task for config in configs} == {task}
    numbers = {config.data.train_examples for config in configs}
    whole = {"pos_tagging": 3881, "sentiment": 6884}[task]
    assert numbers == {64, 128, 256, 512, 1024, 2048, whole}
    assert {config.train_steps for config in configs} == {400}
    first = load_sweep(file)[: len(load_sweep(file)) // 2]
    assert len({point["optimizer.learning_rate"] for point in first}) == 1


@pytest.mark.fast
def test_all_of_unknown_data_is_all():
    config = load_config(f"{FOLDER}/data_size.py:dataset=files")
    assert config.data.train_examples is None
    assert load_config(f"{FOLDER}/data_size.py:examples=7").data.train_examples == 7


@pytest.mark.fast
@pytest.mark.parametrize("examples", ["0", "-3", "some", "1.5", "²"])
def test_a_wrong_number_of_examples_is_refused(examples):
    with pytest.raises(UserError, match=r"examples='.*': expected an int of 1 or more, or all"):
        load_config(f"{FOLDER}/data_size.py:examples={examples}")


@pytest.mark.fast
@pytest.mark.parametrize("probe", [delayed_copy, key_value_recall])
def test_an_example_of_a_probe_is_a_row(probe):
    file, name = f"{FOLDER}/long_range.py", probe.__name__.rpartition(".")[2]
    for point in load_sweep(file):
        if not only_seed_0(point) or "variant=scaled_dot" not in point["arg"]:
            continue
        config = load_config(f"{file}:probe={name}", point)
        length = probe.length(config.data.distance)
        assert config.dataset == name and config.data.max_length == length
        assert config.batch_tokens % length == 0 and config.batch_tokens >= length
        assert tasks.get(config.task).Task.options(config) == {"distance": config.data.distance}


@pytest.mark.fast
def test_what_long_range_wants_and_has():
    module = load_module(f"{FOLDER}/long_range.py")
    swept = {point["arg"].split("variant=")[1] for point in load_sweep(f"{FOLDER}/long_range.py")}
    assert swept == set(module.WANTED) & set(variants.names())
    assert {"scaled_dot", "sliding_window", "rnn", "cnn"} <= swept


@pytest.mark.fast
def test_recurrent_translators_are_as_large_as_the_transformer():
    file = f"{FOLDER}/translation_recurrent.py"
    swept = load_sweep(file)
    assert swept.budget.solve == "model.dim" and swept.budget.kind == "params"
    configs = [load_config(f"{file}:{point['arg']}") for point in swept.points]
    found = [config.model.architecture for config in configs]
    assert found == ["recurrent"] * 4 + ["transformer"]
    assert load_config(f"{file}:{swept.budget.like['arg']}") == configs[-1]
    assert {(c.train_steps, c.batch_tokens, c.decode.beam_size) for c in configs} == {
        (1500, 4096, 5)
    }


@pytest.mark.fast
def test_small_data_has_one_recipe_for_all_its_data_sets():
    file = f"{FOLDER}/sentiment_small_data.py"
    assert [point["arg"] for point in load_sweep(file)] == ["seed=0", "seed=1", "seed=2"]
    for dataset in ("rotten_tomatoes", "imdb", "files"):
        config = load_config(f"{file}:dataset={dataset},variant=cnn,seed=2")
        assert (config.seed, config.model.attention.variant) == (2, "cnn")
        assert (config.data.tokenizer, config.model.pooling) == ("words", "attention")
        assert config.data.max_length == (512 if dataset == "imdb" else 128)
