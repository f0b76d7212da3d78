"""The shape of the house: imports run one way, and nothing hides a standard module."""

import ast
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

# What each part may import of the others, itself left out.
ALLOWED = {
    "errors": set(),
    "python_version": set(),
    "cache_directory": set(),
    "found_by_name": {"errors"},
    "losses": set(),
    "flags": {"errors"},
    "command": {"errors", "flags", "python_version"},
    "ops": {"errors"},
    "normalizers": {"errors", "found_by_name", "ops"},
    "positions": {"errors", "found_by_name", "ops"},
    "core": {"errors", "ops", "positions", "normalizers"},
    "variants": {"errors", "found_by_name", "ops", "positions", "normalizers", "core"},
    "models": {"errors", "ops", "positions", "core"},
    "assembly": {"positions", "variants", "models"},
    "configuration": {"errors", "positions", "core", "variants", "data"},
    "data": {"errors", "cache_directory", "found_by_name"},
    "decoding": {"errors"},
    "metrics": {"errors"},
    "tasks": {
        *("errors", "found_by_name", "losses", "assembly", "models", "data", "decoding", "metrics"),
    },
    "training": {
        *("errors", "cache_directory", "losses", "core", "variants", "data", "tasks"),
        "configuration",
    },
    "tools": {
        *("errors", "ops", "normalizers", "positions", "core", "variants", "data", "tasks"),
        *("training", "configuration"),
    },
    "comparison": {"errors", "configuration", "metrics", "training"},
    "sweeping": {"errors", "configuration", "training", "cache_directory"},
    "visualization": {
        *("errors", "ops", "core", "variants", "models", "data", "tasks", "training"),
        *("configuration", "tools"),
    },
}


def imports(path: Path) -> set[str]:
    """The parts of `attention` that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "attention":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attention."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("attention.")]
            found |= {name.split(".")[1] for name in names}
    return found


def parts(repository: Path) -> dict[str, list[Path]]:
    folder = repository / "attention"
    found: dict[str, list[Path]] = {}
    for path in folder.rglob("*.py"):
        name = path.relative_to(folder).parts[0].removesuffix(".py")
        if name != "__init__":
            found.setdefault(name, []).append(path)
    return found


def test_imports_run_one_way(repository):
    for part, files in parts(repository).items():
        assert part in ALLOWED, f"say in this table what attention/{part} may import"
        for file in files:
            wrong = imports(file) - ALLOWED[part] - {part}
            assert not wrong, f"{file.relative_to(repository)} imports {sorted(wrong)}"


def test_the_table_has_no_way_round():
    def reachable(part, seen=()):
        return {part}.union(*(reachable(p, (*seen, part)) for p in ALLOWED[part] if p not in seen))

    for part, allowed in ALLOWED.items():
        for other in allowed:
            assert part not in reachable(other), f"{part} imports {other}, which leads back to it"


def test_configs_import_little(repository):
    for file in (repository / "configs").rglob("*.py"):
        allowed = {"errors", "positions", "variants", "data", "configuration"}
        assert imports(file) <= allowed, file.name


def test_no_name_hides_a_standard_module(repository):
    names = {path.stem for path in repository.glob("*.py")}
    names |= {path.parent.name for path in repository.glob("*/__init__.py")}
    assert names and not names & set(sys.stdlib_module_names)


def test_scripts_are_thin(repository):
    for script in repository.glob("*.py"):
        assert len(script.read_text(encoding="utf-8").splitlines()) <= 60, script.name
