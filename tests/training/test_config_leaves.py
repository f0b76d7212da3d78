"""A config key that nothing reads is a defect: every leaf of a recipe is read by a training run."""

import dataclasses
from pathlib import Path

import pytest
from support.pairs import write_pairs
from support.recording import RecordingConfig, recorded_fields, unread
from support.reviews import write_reviews
from support.runs import SMALL
from support.treebank import write_treebank

from attention import configuration, positions, variants
from attention.configuration.fields import leaves
from attention.core.settings import LayerSettings
from attention.models.encoder import EncoderConfig
from attention.training import loop

REPOSITORY = Path(__file__).parent.parent.parent
# Small data of one's own for each task: (folder) -> overrides that name its files.
WRITE_DATA = {
    "pos_tagging": write_treebank,
    "sentiment": write_reviews,
    "translation": write_pairs,
}
# The arguments of each recipe, and what is set besides: together they make use of every leaf.
USES: dict[str, list[tuple[str, dict]]] = {
    "pos_tagging.py": [
        ("size=tiny", {}),
        ("size=small", {}),
        ("size=base", {}),
        ("size=tiny,variant=entmax", {}),
        *(
            ("size=tiny", {"model.position": name})
            for name in positions.names()
            if dataclasses.fields(positions.get(name).Config) and name != "rope"
        ),
    ],
    "sentiment.py": [("size=tiny,variant=entmax", {})],
    "translation.py": [
        ("size=tiny,variant=entmax", {}),
        ("size=tiny,model=recurrent,cross=entmax", {}),
    ],
}
# One encoder reads these for all recipes: they are tried with the first alone.
SHARED = "model.positions."
# The names of the parts that a run is made of; they are for people and for compare, not for code.
LABELS = {"size"}


def recipes() -> dict[str, str]:
    """The task of each recipe that trains one, by the file's name."""
    found = {}
    for path in sorted((REPOSITORY / "configs").glob("*.py")):
        get_config = getattr(configuration.load_module(str(path)), "get_config", None)
        if get_config is not None and path.stem != "saved":  # that is the config of some run
            found[path.name] = get_config("").task
    return found


RECIPES = recipes()


@pytest.fixture(scope="module", params=RECIPES)
def reads(request, tmp_path_factory):
    """For each size of a recipe: the config, the leaves read, and the fields read of its parts."""
    task = RECIPES[request.param]
    assert task in WRITE_DATA, f"add to WRITE_DATA what writes small data for task {task!r}"
    folder = tmp_path_factory.mktemp("leaves")
    overrides = {**SMALL, **WRITE_DATA[task](folder / "data"), "train_steps": 1}
    by_size = {}
    own = {variants.get(name).Config: "model.attention" for name in variants.names()}
    # What fixed options and examples are compared with is no use of them.
    own |= {positions.get(name).Config: f"model.positions.{name}" for name in positions.names()}
    uses = USES.get(request.param, [("", {})])
    for number, (argument, more) in enumerate(uses):
        size = f"{number}:{argument}"
        spec = f"configs/{request.param}:{argument}{',' if argument else ''}dataset=files"
        known = dict(leaves(configuration.load_config(spec)))
        chosen = {key: value for key, value in overrides.items() if key in known} | more
        # Chosen before: a config that notes its reads cannot be copied.
        config = configuration.choose_implementation(configuration.load_config(spec, chosen))
        read: set[str] = set()
        fields: set[str] = set()
        built = {EncoderConfig: "encoder", LayerSettings: "layer"}
        with recorded_fields(own, read), recorded_fields(built, fields):
            loop.train(RecordingConfig(config, read), str(folder / str(number)))
        # The attentions of all places read the options of one class.
        options = [key.rpartition(".")[2] for key in read if key.startswith("model.attention.")]
        options += [field.name for field in dataclasses.fields(variants.get("entmax").Config)]
        for place, _ in configuration.attention_sections(config):
            read |= {f"{place}.{option}" for option in options if place != "model.attention"}
        by_size[size] = (config, read, fields)
    return by_size


def test_the_recipes_are_found():
    assert {"pos_tagging.py", "sentiment.py"} <= set(RECIPES)
    assert not {"saved.py", "common.py"} & set(RECIPES)


def test_every_leaf_is_read_under_some_argument(request, reads):
    everything = set().union(*(read for _, read, _ in reads.values()))
    name = request.node.callspec.params["reads"]
    main = f"{RECIPES[name]}.py"  # a study of a task has the leaves of its recipe, tested there
    if name != main:
        everything |= {key for key, _ in leaves(configuration.load_config(f"configs/{main}"))}
    if name != "pos_tagging.py":
        config = configuration.load_config(f"configs/{name}")
        everything |= {key for key, _ in leaves(config) if key.startswith(SHARED)}
    for size, (config, _, _) in reads.items():
        assert set(unread(config, everything)) <= LABELS, size


def test_every_field_of_what_is_built_from_a_config_is_read(reads):
    everything = set().union(*(fields for _, _, fields in reads.values()))
    expected = {f"encoder.{name}" for name in EncoderConfig.__dataclass_fields__}
    assert expected <= everything


def test_a_leaf_that_nothing_reads_is_found(reads):
    config, read, _ = next(iter(reads.values()))
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.model.forgotten = 1
    assert "model.forgotten" in unread(config, read)
