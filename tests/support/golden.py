"""The files of tests/golden, and our functions against them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

FOLDER = Path(__file__).parent.parent / "golden"


def names() -> list[str]:
    """Returns the names of all files."""
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


def read(name: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a file by their names."""
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


def cases(file: dict[str, np.ndarray]) -> list[str]:
    """Returns the names of a file's cases."""
    return [name.removesuffix("_out") for name in file if name.endswith("_out")]


def check(
    run: Callable[..., jax.Array],
    file: dict[str, np.ndarray],
    case: str,
    names: tuple[str, ...],
    *,
    atol: float = 3e-6,
    compiled: bool = False,
) -> None:
    """Compares the output and all stored gradients of `run`, given arrays of the file by name.

    `compiled` is quicker for what has many operations that no other test has.
    """

    def both(given, cotangent):
        out, pull = jax.vjp(lambda arrays: run(**arrays), given)
        return out, pull(cotangent.astype(out.dtype))[0]

    given = {name: jnp.asarray(file[name]) for name in names}
    out, gradients = (jax.jit(both) if compiled else both)(given, jnp.asarray(file["cotangent"]))
    np.testing.assert_allclose(out, file[f"{case}_out"], rtol=0, atol=atol)
    for name, gradient in gradients.items():
        if f"{case}_grad_{name}" in file:
            expected = file[f"{case}_grad_{name}"]
            np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=3 * atol, err_msg=name)
