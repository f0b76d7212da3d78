"""Regenerates the golden files: what other implementations give on fixed inputs.

    pip install -r tests/golden/requirements.txt
    python tests/golden/make_golden.py [NAME ...]

Without names it makes all whose libraries are installed: no environment has all of them, see
README.md. The witnesses are large, so that the tests read their outputs instead.
Before it writes a file it compares the library with the formula in NumPy and prints the largest
difference. README.md says what each file holds and where a library departs from ours.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import witnesses

FOLDER = Path(__file__).parent


def found() -> dict:
    """Returns the function that makes each file, by the file's name; no library is imported yet."""
    by_name = {}
    for module in pkgutil.iter_modules(witnesses.__path__):
        if module.name.startswith("from_"):
            by_name |= importlib.import_module(f"witnesses.{module.name}").WITNESSES
    return by_name


def main() -> None:
    by_name = found()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(by_name))
    asked = parser.parse_args().names
    names = asked or list(by_name)
    unknown = sorted(set(names) - set(by_name))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(by_name)}")
    for name in names:
        print(name)
        path = FOLDER / f"{name}.npz"
        try:
            arrays = by_name[name]()
        except ModuleNotFoundError as error:
            if asked:
                raise
            print(f"    left as it is: {error}")
            continue
        np.savez_compressed(path, **arrays)
        print(f"    wrote {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
