"""Writes the pages of this folder from the code: `python docs/variants/make.py`."""

import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from attention.tools import catalogue  # noqa: E402


def main() -> None:
    folder = Path(__file__).parent
    made = catalogue.pages(REPOSITORY)
    for page in folder.glob("*.md"):
        if page.name not in made:  # of a variant that is no more
            page.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(made)} pages to {folder}")


if __name__ == "__main__":
    main()
