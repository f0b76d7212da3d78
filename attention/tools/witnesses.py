"""What each mechanism is checked against: the float64 references, and other libraries' outputs."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np


class Witnesses:
    """The files of tests/reference and tests/golden, by what they are about."""

    def __init__(self, repository: Path, names: Iterable[str]):
        """Reads which libraries made which files.

        Args:
            repository: its root.
            names: of all that a file of tests/golden may be about.
        """
        self.repository = repository
        self.names = set(names)
        self.files: dict[str, list[tuple[str, str]]] = {}
        for path in sorted((repository / "tests" / "golden").glob("*.npz")):
            for name in self._subjects(path):
                self.files.setdefault(name, []).append((path.name, _origin(path)))

    def reference(self, name: str) -> list[str]:
        """Returns the line of a list about tests/reference/<name>.py, if there is such a file."""
        path = f"tests/reference/{name}.py"
        if not (self.repository / path).exists():
            return []
        return [f"- [{path}](../../{path}): the formula in float64, written slowly"]

    def golden(self, name: str) -> list[str]:
        """Returns the lines of a list about the outputs of other libraries."""
        return [
            f"- [{file}](../../tests/golden/{file}): outputs of {origin}"
            for file, origin in self.files.get(name, ())
        ]

    def _subjects(self, path: Path) -> set[str]:
        """Returns what a file is about: the longest name that its own begins with.

        One that is named after nothing but a family holds others too, by the names of its cases.
        """
        starts = {name for name in self.names if f"{path.stem}_".startswith(f"{name}_")}
        longest = {max(starts, key=len)} if starts else set()
        if path.stem not in self.names:
            return longest
        with np.load(path) as file:
            return longest | (self.names & {key.removesuffix("_out") for key in file.files})


def _origin(path: Path) -> str:
    """Returns "name version" of the library, and of those that it ran on."""
    with np.load(path) as file:
        made_by = [str(each) for each in file["library"]] if "library" in file.files else []
    first, *others = [each for each in made_by if not each.startswith("numpy ")] or [path.stem]
    return f"{first} (on {', '.join(others)})" if others else first
