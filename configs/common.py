"""What the recipes share: reading the config argument, and the defaults of every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from ml_collections import ConfigDict

from attention.configuration.arguments import parse_argument
from attention.configuration.fields import duration, optional, section_of
from attention.errors import UserError, did_you_mean


def read_argument(
    text: str, defaults: Mapping[str, str | int], *, choices: Mapping[str, tuple[str, ...]]
) -> SimpleNamespace:
    """Returns the keys of `defaults` as attributes, with the values that the argument sets.

    Args:
      text: "variant=linear,seed=1".
      defaults: The allowed keys; a value is read as the type of its default.
      choices: What is allowed, for the keys that have a closed list of values.

    Raises:
      UserError: an unknown key or value, with the nearest allowed one.
    """
    values = dict(defaults)
    for key, value in parse_argument(text).items():
        if key not in defaults:
            allowed = ", ".join(f"{name}=" for name in defaults)
            hint = did_you_mean(key, defaults)
            raise UserError(f"no config argument '{key}'{hint}: there are {allowed}")
        if isinstance(defaults[key], int):
            if not value.isascii() or not value.isdigit():
                raise UserError(f"config argument {key}={value!r}: expected an int, 0 or more")
            values[key] = int(value)
        else:
            values[key] = value
        if key in choices:
            check_choice(key, value, choices[key])
    return SimpleNamespace(**values)


def tiny_config(recipe: ModuleType, text: str, *, dataset: str) -> Any:
    """Returns a recipe's config of size tiny, unlocked, for `variant=`, `dataset=` and `seed=`.

    Args:
      recipe: the config file of a task, which checks their values.
      text: the argument.
      dataset: the default.
    """
    defaults = {"variant": "scaled_dot", "dataset": dataset, "seed": 0}
    chosen = read_argument(text, defaults, choices={})
    return recipe.get_config(
        f"size=tiny,variant={chosen.variant},dataset={chosen.dataset},seed={chosen.seed}"
    ).unlock()


def check_choice(key: str, value: str, allowed: Sequence[str]) -> None:
    """Raises UserError for a value of a config argument that is not among the allowed ones."""
    if value not in allowed:
        raise UserError(
            f"config argument {key}={value!r}: expected one of "
            f"{', '.join(allowed)}{did_you_mean(value, allowed)}"
        )


def dataset_names(task: str) -> tuple[str, ...]:
    """Returns the names of the data sets for a task."""
    from attention.data import sources  # without JAX: a wrong name is told before that loads

    return sources.names(task)


def attention_section(variant: str) -> ConfigDict:
    """Returns `model.attention`: the variant's name and the defaults of its own `Config`."""
    from attention import variants  # imports JAX, so only once the argument is right

    section = section_of(variants.get(variant).Config)
    section.variant = variant
    return section


def default_position(variant: str) -> str:
    """Returns the position scheme that suits a variant: rotary, where it has queries and keys."""
    from attention import variants

    module = variants.get(variant)
    if "rope" in getattr(module, "POSITIONS", ()):
        return "rope"
    # What is blind to order needs it from the input; a recurrence or a convolution has its own.
    return "sinusoidal" if getattr(module, "PERMUTATION_EQUIVARIANT", False) else "none"


def default_direction(variant: str) -> str:
    """Returns "bidirectional", or "two_pass" for a variant that only looks back."""
    from attention import variants

    modes = variants.get(variant).MODES
    return "bidirectional" if "bidirectional" in modes else "two_pass"


def position_sections() -> ConfigDict:
    """Returns `model.positions`: the options of each position scheme that has any."""
    from attention import positions

    sections = ConfigDict()
    for name in positions.names():
        section = section_of(positions.get(name).Config)
        if len(section):
            sections[name] = section
    return sections


def encoder_section(size: Any, variant: str) -> ConfigDict:
    """Returns what every model with an encoder has in `model`, for the numbers of a size.

    Args:
      size: has dim, num_layers, num_heads, mlp_dim and dropout_rate.
      variant: the attention of its layers.
    """
    model = ConfigDict()
    model.dim = size.dim
    model.num_layers = size.num_layers
    model.num_heads = size.num_heads
    model.mlp_dim = size.mlp_dim
    model.dropout_rate = size.dropout_rate
    model.attention_dropout_rate = optional(None, float)  # of attention weights; None: dropout_rate
    model.norm = "pre"
    model.activation = "gelu"
    model.position = default_position(variant)
    model.position_merge = "add"  # of a scheme at the input
    model.positions = position_sections()
    model.direction = default_direction(variant)
    model.attention = attention_section(variant)
    return model


def data_section(max_length: int) -> ConfigDict:
    """Returns what every task has in `data`."""
    data = ConfigDict()
    data.max_length = max_length
    data.pack = "auto"
    data.order_seed = optional(None, int)  # None: the seed
    data.num_threads = 2
    return data


def training_defaults() -> ConfigDict:
    """Returns the keys that every task has, with the defaults that suit most."""
    config = ConfigDict()
    config.seed = 0
    config.dtype = "float32"
    config.matmul_precision = "default"
    config.parallelism = "jit"
    # Of each pair one is set: rows or positions a batch, steps or epochs a run.
    config.batch_size = optional(None, int)
    config.batch_tokens = optional(4096, int)
    config.train_steps = optional(None, int)
    config.train_epochs = optional(10.0, float)
    config.eval_batch_size = 64
    config.log_every_steps = duration(20)
    config.eval_every_steps = duration("1epochs")
    config.checkpoint_every_steps = duration("1epochs")
    # Training ends once dev has not improved for so many evaluations; 0: never early.
    config.early_stopping_evaluations = 0
    config.label_smoothing = 0.0
    config.optimizer = optimizer_defaults()
    config.tracking = ConfigDict()
    config.tracking.backend = "none"  # wandb, mlflow or trackio; TensorBoard's files always come
    config.tracking.project = "attention-lab"
    return config


def optimizer_defaults() -> ConfigDict:
    """Returns `optimizer`: AdamW with clipping, warm-up and a cosine to zero."""
    optimizer = ConfigDict()
    optimizer.learning_rate = 1e-3
    optimizer.schedule = "cosine"
    optimizer.warmup_steps = duration("5%")
    optimizer.weight_decay = 0.01
    optimizer.b1 = 0.9
    optimizer.b2 = 0.98
    optimizer.clip_norm = 1.0  # of the whole gradient; a large number never clips
    optimizer.accumulation_steps = 1
    return optimizer
