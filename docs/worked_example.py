"""Writes worked_example.md and its pictures beside this file: `python docs/worked_example.py`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from attention import normalizers, variants  # noqa: E402
from attention.ops import scores  # noqa: E402
from attention.tools import pictures  # noqa: E402

FOLDER = "worked_example"  # of the pictures
WORDS = ("The", "cat", "sat", "on", "the", "mat")
QUERIES = ((0.1, 0.2), (0.7, 0.8), (0.3, 0.4), (0.9, 0.1), (0.5, 0.6), (0.2, 0.3))
KEYS = ((0.3, 0.4), (0.9, 0.1), (0.5, 0.6), (0.2, 0.3), (0.7, 0.8), (0.4, 0.5))
VALUES = ((0.5, 0.6), (0.2, 0.3), (0.7, 0.8), (0.4, 0.5), (0.9, 0.1), (0.6, 0.7))
# What the scores have besides, for one head of two features: small numbers, chosen by hand.
SCORES: dict[str, dict[str, Any]] = {
    "scaled_dot": {},
    "dot": {},
    "additive": {"score_vector": ((1.0, -2.0),)},
    "general": {"score_matrix": (((2.0, 0.0), (-1.0, 1.0)),)},
    "cosine": {"temperature": (10.0,)},
    "l2": {},
}
OF_NORMALIZERS: dict[str, dict[str, Any]] = {"sink": {"sink": (0.5,)}, "entmax": {"alpha": 1.25}}
SHARPER = 8  # times the queries, so that what sets normalizers apart shows


def pages() -> dict[str, str]:
    """Returns the text of each file, by its path under docs."""
    made: dict[str, str] = {}
    parts = [_vectors(), _step_by_step(made), _without_itself(made)]
    parts += [_other_scores(made), _other_normalizers(made)]
    head = (
        "# Six words, computed\n\n"
        "<!-- Made by `python docs/worked_example.py`: change that, not this page. -->\n\n"
        "Attention from its first product to its outputs, on a sentence of six words with vectors "
        "of two numbers, one head, no mask and no positions. Each number below is what the code of "
        "this repository gives, rounded for print; `tests/test_worked_example.py` holds the page "
        "to it."
    )
    made["worked_example.md"] = "\n\n".join([head, *parts]) + "\n"
    return made


# -- sections --------------------------------------------------------------------------------------


def _vectors() -> str:
    rows = np.concatenate([QUERIES, KEYS, VALUES], axis=1)
    named = [[_vector(row[:2], 1), _vector(row[2:4], 1), _vector(row[4:], 1)] for row in rows]
    product = float(np.dot(QUERIES[1], KEYS[0]))
    return (
        "## The vectors\n\n"
        + _table(("", "query", "key", "value"), WORDS, named)
        + "\n\nWords and vectors are those of a tutorial that circulates on the Chinese web; its "
        "own tables of scores, weights and outputs do not follow from them, and are not repeated "
        "here. For one, the product of the query of *cat* and the key of *The* is "
        f"0.7 · 0.3 + 0.8 · 0.4 = {product:.2f}, where it prints 0.63."
    )


def _step_by_step(made: dict[str, str]) -> str:
    products = np.asarray(scores.dot(_heads(QUERIES), _heads(KEYS)))[0, 0]
    scaled = np.asarray(scores.scaled_dot(_heads(QUERIES), _heads(KEYS)))[0, 0]
    weights, outputs = _weights("scaled_dot"), _outputs("scaled_dot")
    picture = _picture(made, "scaled_dot", weights, "scaled_dot")
    powers = np.exp(scaled[1])
    terms = " + ".join(
        f"{weight:.3f} · {_vector(v, 1)}" for weight, v in zip(weights[1], VALUES, strict=True)
    )
    return "\n\n".join(
        [
            "## Scaled dot-product attention, step by step",
            "Rows are the words that ask, columns the words that are asked.",
            "**1. Products** q·k:",
            _matrix(products),
            "**2. Scores** e = q·k / √2, as the vectors have two numbers:",
            _matrix(scaled),
            "**3. Weights**: the softmax of each row. For *cat*: the exponentials are "
            f"{_list(powers)}, their sum is {powers.sum():.3f}, and each over the sum is its "
            "weight.",
            _matrix(weights),
            picture,
            f"**4. Outputs**: the values, weighed. For *cat*: {terms} = {_vector(outputs[1])}.",
            _table(("", "output"), WORDS, [[_vector(row)] for row in outputs]),
            "In code:\n\n```python\nfrom attention import variants\n\n"
            'scaled_dot = variants.get("scaled_dot")\n'
            "weights = scaled_dot.weights(q, k)  # [1 1 6 6] of q, k [1 6 1 2]\n"
            "outputs = scaled_dot.attend(q, k, v)  # [1 6 1 2]\n```",
        ]
    )


def _without_itself(made: dict[str, str]) -> str:
    others = ~np.eye(len(WORDS), dtype=bool)[None, None]
    weights = _weights("scaled_dot", mask=others)
    weights[np.eye(len(WORDS), dtype=bool)] = np.nan
    outputs = _outputs("scaled_dot", mask=others)
    return "\n\n".join(
        [
            "## The same without each word's score with itself",
            "The tutorial leaves out the diagonal. That is a mask, `mask=~jnp.eye(6, "
            "dtype=bool)[None, None]`: the scores stay what they are, a hidden one gets no weight, "
            "and the others share all of it.",
            _matrix(weights),
            _picture(made, "without_itself", weights, "scaled_dot, without itself"),
            _table(("", "output"), WORDS, [[_vector(row)] for row in outputs]),
        ]
    )


def _other_scores(made: dict[str, str]) -> str:
    parts = [
        "## Each score",
        "The same vectors under each score, then softmax. The arrays that a layer would learn are "
        "chosen by hand, for one head:",
    ]
    for name, own in SCORES.items():
        arrays = [f"`{key}` = {_nested(value[0])}" for key, value in own.items()]
        title = f"**[{name}](variants/{name}.md)**" + (f", {'; '.join(arrays)}" if arrays else "")
        weights = _weights(name, **_arrays(own))
        parts += [title, _picture(made, f"score_{name}", weights, name)]
    return "\n\n".join(parts)


def _other_normalizers(made: dict[str, str]) -> str:
    parts = [
        "## Each normalizer",
        "The scores of `scaled_dot` under each normalizer: on the left as above, on the right with "
        f"queries {SHARPER} times as long, and so {SHARPER} times the scores. Rows need not sum to "
        "1, and the hue is full at the largest weight of a picture. All scores are positive here, "
        "so those that cut negative ones off cut nothing off.",
    ]
    for name in normalizers.names():
        own = OF_NORMALIZERS.get(name, {})
        chosen = "; ".join(
            f"`{key}` = {value if isinstance(value, float) else _nested(value[0])}"
            for key, value in own.items()
        )
        parts.append(f"**[{name}](variants/normalizers.md#{name})**" + (chosen and f", {chosen}"))
        shown = []
        for times, stem in ((1, f"normalizer_{name}"), (SHARPER, f"normalizer_{name}_sharper")):
            weights = _weights("scaled_dot", times, normalizer=name, **_arrays(own))
            title = name if times == 1 else f"{name}, scores × {times}"
            shown.append(_picture(made, stem, weights, title))
        parts.append(" ".join(shown))
    return "\n\n".join(parts)


# -- computing -------------------------------------------------------------------------------------


def _heads(vectors: Sequence[Sequence[float]], times: float = 1) -> Any:
    """Returns [1 6 1 2]: one sentence, six words, one head."""
    return times * jnp.asarray(vectors, jnp.float32)[None, :, None, :]


def _arrays(own: dict[str, Any]) -> dict[str, Any]:
    return {key: v if isinstance(v, float) else jnp.asarray(v) for key, v in own.items()}


def _weights(name: str, times: float = 1, **given: Any) -> np.ndarray:
    found = variants.get(name).weights(_heads(QUERIES, times), _heads(KEYS), **given)
    return np.array(found[0, 0], np.float64)


def _outputs(name: str, **given: Any) -> np.ndarray:
    found = variants.get(name).attend(_heads(QUERIES), _heads(KEYS), _heads(VALUES), **given)
    return np.array(found[0, :, 0], np.float64)


# -- printing --------------------------------------------------------------------------------------


def _picture(made: dict[str, str], stem: str, weights: np.ndarray, title: str) -> str:
    path = f"{FOLDER}/{stem}.svg"
    made[path] = pictures.heat_map(weights, rows=WORDS, columns=WORDS, title=title)
    return f"![{title}: the weight of each word (columns) for each word (rows)]({path})"


def _matrix(values: np.ndarray) -> str:
    rows = [[f"{x:.3f}" if np.isfinite(x) else "–" for x in row] for row in values]
    return _table(("", *WORDS), WORDS, rows)


def _table(head: Sequence[str], names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| **{name}** | {' | '.join(row)} |" for name, row in zip(names, rows, strict=True)]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])


def _vector(vector: Sequence[float] | np.ndarray, digits: int = 3) -> str:
    return f"[{_list(vector, digits)}]"


def _list(numbers: Sequence[float] | np.ndarray, digits: int = 3) -> str:
    return ", ".join(f"{x:.{digits}f}" for x in numbers)


def _nested(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"[{', '.join(_nested(each) for each in value)}]"


def main() -> None:
    docs = Path(__file__).resolve().parent
    made = pages()
    (docs / FOLDER).mkdir(exist_ok=True)
    for old in (docs / FOLDER).glob("*.svg"):
        if f"{FOLDER}/{old.name}" not in made:
            old.unlink()
    for path, text in made.items():
        (docs / path).write_text(text, encoding="utf-8")
    print(f"wrote {docs / 'worked_example.md'} and {len(made) - 1} pictures to {docs / FOLDER}")


if __name__ == "__main__":
    main()
