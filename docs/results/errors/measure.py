"""The largest error of every variant against its float64 reference, in float32 and bfloat16.

    pip install -e '.[test]'
    python docs/results/errors/measure.py [NAME ...]

Writes errors.json and README.md beside this file; with names, measures those and keeps the rest.
A variant that is a function of q, k and v is measured by `attend`, from normal arrays; another one
as a layer, with parameters moved off their initial values. The reference (tests/reference) gets the
arrays after their rounding to bfloat16, so that what is measured is the computing.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from flax import nnx  # noqa: E402
from support.attend_checks import AttendProbe  # noqa: E402
from support.cases import AttendCase, reference, small_options  # noqa: E402

from attention import variants  # noqa: E402

HERE = Path(__file__).resolve().parent
SEED = 0
SIZES = {"b": 1, "t": 48, "s": 48, "n": 4, "h": 32, "w": 5, "r": 3}
DTYPES = ("float32", "bfloat16")
HEAD = """# Largest error against float64

```
python docs/results/errors/measure.py
```

The largest difference of any number from the float64 reference in `tests/reference`, and the same
over the largest number there. {sizes}; normal inputs, seed {seed}; nothing hidden but by causality
and the variant's own pattern. The reference gets what the inputs are after their rounding to
bfloat16. Functions of q, k and v are measured by `attend`; the others as layers, with parameters
that bfloat16 holds exactly. Options are given where a default would do nothing at this length.

Hardware: {hardware}; {versions}. Numbers as JSON: [errors.json](errors.json).
"""


class Measured(AttendProbe):
    """The conformance suite's probe of `attend`, at the sizes of this measurement."""

    def __init__(self, name: str, causal: bool):
        case = AttendCase(name, SIZES["n"], causal, small_options(name))
        self.case, self.variant, self.reference = case, variants.get(name), reference(name)
        self.options = dict(case.options)
        self.aligned = not {"decode", "cross"} & self.variant.MODES
        self.shape = tuple(SIZES[letter] for letter in "bnts")
        sizes = {**SIZES, "k": SIZES["n"], "p": SIZES["n"] // 2}
        axes = {"q": "b t n h", "k": "b s k h", "v": "b s k h", **self._own_axes()}
        random = np.random.default_rng(SEED)
        self.names = list(axes)
        self.inputs = [random.normal(size=[sizes[d] for d in a.split()]) for a in axes.values()]

    def difference(self, dtype: str) -> dict[str, float]:
        """Returns the largest error for inputs of this type."""
        arrays = [jnp.asarray(array, dtype) for array in self.inputs]
        rounded = [np.asarray(array, np.float64) for array in arrays]
        ids = np.ones((SIZES["b"], SIZES["t"]), np.int32)
        given = {"segment_ids": ids, "query_offset": np.zeros(SIZES["b"], np.int32)}
        want = self.expected(given, rounded)
        given = {"segment_ids": ids} if self.aligned else given
        return compared(jax.jit(lambda *a: self.attend(*a, given=given))(*arrays), want)


def layer_difference(name: str, causal: bool, dtype: str) -> dict[str, float]:
    """Returns the largest error of a layer."""
    options = dict(small_options(name))
    dim = SIZES["n"] * SIZES["h"]
    layer: Any = variants.make(
        *(name,),
        **{"dim": dim, "num_heads": SIZES["n"], "causal": causal, "dtype": dtype, **options},
        rngs=nnx.Rngs(SEED),
    )
    random = np.random.default_rng(SEED)

    def moved(parameter):
        away = parameter + 0.1 * jnp.asarray(random.normal(size=parameter.shape), jnp.float32)
        return away.astype(jnp.bfloat16).astype(jnp.float32)

    nnx.update(layer, jax.tree.map(moved, nnx.state(layer, nnx.Param)))
    state = {
        ".".join(map(str, path)): np.asarray(parameter[...], np.float64)
        for path, parameter in nnx.to_flat_state(nnx.state(layer, nnx.Param))
    }
    x = jnp.asarray(random.normal(size=(SIZES["b"], SIZES["t"], dim)), dtype)
    ids = np.ones((SIZES["b"], SIZES["t"]), np.int32)
    module = reference(name)
    config = variants.get(name).Config(**options)
    known = {option: getattr(config, option) for option in getattr(module, "OPTIONS", ())}
    wide = np.asarray(x, np.float64)
    want = module.forward(state, wide, segment_ids=ids, causal=causal, **known)
    return compared(layer(x, segment_ids=jnp.asarray(ids)), want)


def compared(got: jax.Array, want: np.ndarray) -> dict[str, float]:
    """Returns the largest difference, and that over the largest number."""
    if got.shape != want.shape or not np.all(np.isfinite(want)):
        raise SystemExit(f"a result of shape {got.shape} for a reference of {want.shape}")
    largest = float(np.abs(np.asarray(got, np.float64) - want).max())
    return {"absolute": largest, "relative": largest / float(np.abs(want).max())}


def measure(name: str) -> dict[str, Any]:
    """Returns all that is measured of a variant."""
    variant = variants.get(name)
    directions = [d for d in ("bidirectional", "causal") if d in variant.MODES]
    directions = directions or ["bidirectional"]  # to another sequence, which has no order
    function = "attend" if hasattr(variant, "attend") else "layer"
    errors: dict[str, dict] = {dtype: {} for dtype in DTYPES}
    for direction in directions:
        causal = direction == "causal"
        probe = Measured(name, causal) if function == "attend" else None
        for dtype in DTYPES:
            found = probe.difference(dtype) if probe else layer_difference(name, causal, dtype)
            errors[dtype][direction] = found
    return {"function": function, "options": dict(small_options(name)), "errors": errors}


def readme(measured: dict[str, Any]) -> str:
    """Returns the page with the table."""
    sizes = ", ".join(f"{letter} {size}" for letter, size in measured["sizes"].items())
    made = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    head = HEAD.format(
        sizes=sizes, seed=measured["seed"], hardware=measured["hardware"], versions=made
    )
    columns = [(dtype, d) for dtype in DTYPES for d in ("bidirectional", "causal")]
    names = " | ".join(f"{dtype}, {direction}" for dtype, direction in columns)
    lines = [f"| variant | of | {names} |", "|" + "---|" * (2 + len(columns))]
    for name, found in sorted(measured["variants"].items()):
        cells = []
        for dtype, direction in columns:
            error = found["errors"][dtype].get(direction)
            cells.append("–" if error is None else _both(error))
        given = "".join(f", {key}={_python(value)}" for key, value in found["options"].items())
        function = f"{found['function']}{given}"
        lines.append(f"| [{name}](../../variants/{name}.md) | {function} | {' | '.join(cells)} |")
    return (
        f"{head}\n" + "\n".join(lines) + "\n\nEach cell: largest error; over the largest value.\n"
    )


def _python(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _both(error: dict[str, float]) -> str:
    return f"{error['absolute']:.1e}; {error['relative']:.1e}"


def hardware() -> str:
    """Returns the processor and the number of its cores that are used."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {names[0] if names else platform.processor()}"


def conditions() -> dict[str, Any]:
    """Returns what the numbers depend on besides the code."""
    versions = {"Python": platform.python_version(), "jax": jax.__version__}
    return {
        "command": "python docs/results/errors/measure.py",
        "seed": SEED,
        "sizes": SIZES,
        "hardware": hardware(),
        "versions": {**versions, "numpy": np.__version__},
    }


def main() -> None:
    path = HERE / "errors.json"
    kept: dict[str, Any] = {}
    if sys.argv[1:] and path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        kept = before.pop("variants")
        if before != conditions():
            raise SystemExit(f"errors.json was made under other conditions, {before}: measure all")
    for name in sys.argv[1:] or variants.names():
        if reference(name) is None:
            print(f"{name}: no tests/reference/{name}.py, not measured", file=sys.stderr)
            continue
        kept[name] = measure(name)
        print(name, json.dumps(kept[name]["errors"]), file=sys.stderr, flush=True)
    found = {name: kept[name] for name in variants.names() if name in kept}
    text = json.dumps({**conditions(), "variants": found}, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")
    (HERE / "README.md").write_text(readme(json.loads(text)), encoding="utf-8")
    print(f"wrote {path} and README.md beside it; now: python docs/variants/make.py")


if __name__ == "__main__":
    main()
