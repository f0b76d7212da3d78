"""Run and sweep directories as training leaves them, made by hand: no model is trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention.comparison.comparing import Options, compare
from attention.comparison.examples import bleu_statistics, score_of

DATA, EVAL = "d" * 64, "e" * 16
METRICS = {
    "pos_tagging": ("accuracy", "loss"),
    "sentiment": ("accuracy", "f1", "loss"),
    "translation": ("bleu", "chrf", "loss", "accuracy"),
}
TAGS = ("NOUN", "VERB", "ADJ")


def config(
    *, task: str = "pos_tagging", variant: str = "scaled_dot", seed: int = 0, **keys: Any
) -> dict[str, Any]:
    """A config with few keys, nested; `optimizer__learning_rate=0.1` sets a dotted one."""
    made: dict[str, Any] = {
        "task": task,
        "dataset": "made_up",
        "size": "tiny",
        "seed": seed,
        "dtype": "float32",
        "train_epochs": 2.0,
        "log_every_steps": 5,
        "batch_tokens": 256,
        "label_smoothing": 0.0,
        "optimizer": {"learning_rate": 0.001, "weight_decay": 0.01, "warmup_steps": "5%"},
        "model": {"dim": 16, "dropout_rate": 0.1, "attention": {"variant": variant}},
        "data": {"order_seed": None, "num_threads": 2, "train_path": None},
        "__types__": {"data.order_seed": "int"},
    }
    if task == "translation":
        made["data"] |= {"source_language": "zh", "target_language": "en"}
    for name, value in keys.items():
        *sections, leaf = name.split("__")
        section = made
        for part in sections:
            section = section.setdefault(part, {})
        section[leaf] = value
    return made


def write_run(
    folder: Path,
    *,
    dev: float = 0.9,
    test: float | None = 0.88,
    status: str = "complete",
    result: Mapping[str, Any] | None = None,
    curve: Sequence[float] = (0.5, 0.8),
    **keys: Any,
) -> Path:
    """Writes config.json, result.json and metrics.jsonl.

    Args:
      dev, test: the first metric of the task.
      result: what result.json holds in place of what is made up.
      curve: the first dev metric of evaluations at steps 10, 20, …; `dev` follows.
      keys: of the config (see `config`).
    """
    made = config(**keys)
    metrics = METRICS[made["task"]]
    curve = [*curve, dev]
    found = {
        "status": status,
        **{key: made[key] for key in ("task", "dataset", "size", "seed", "dtype")},
        "variant": made["model"]["attention"]["variant"],
        "matmul_precision": "default",
        "step": 10 * len(curve),
        "best_step": 10 * len(curve),
        "num_params": 1000,
        "flops": 5_000_000,
        "eval": {metrics[0]: dev, "loss": 1.0 - dev / 100},
        "test": None if test is None else {metrics[0]: test, "loss": 1.1 - test / 100},
        "compile_seconds": 2.0,
        "train_seconds": 10.0,
        "tokens_per_second": 1500.0,
        "peak_memory_bytes": 300_000_000,
        "device_kind": "cpu",
        "config_hash": hashlib.sha256(json.dumps(made).encode()).hexdigest()[:16],
        "data_hash": DATA,
        "eval_hash": EVAL,
        "versions": {"jax": "0.12.0", "flax": "0.12.8", "optax": "0.2.8"},
        **(result or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(made), encoding="utf-8")
    (folder / "result.json").write_text(json.dumps(found), encoding="utf-8")
    rows = [
        {"step": 10 * i, "time": 1.0 * i, f"eval/{metrics[0]}": value}
        for i, value in enumerate(curve, start=1)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return folder


def write_tagging_run(
    folder: Path, sentences: Sequence[Sequence[int]], *, split: str = "test", **settings: Any
) -> Path:
    """A tagging run whose predictions are right (1) or wrong (0) word by word as given."""
    lines, references = [], []
    for number, hits in enumerate(sentences):
        gold = [TAGS[(number + place) % 3] for place in range(len(hits))]
        taken = [tag if hit else TAGS[(TAGS.index(tag) + 1) % 3]
                 for tag, hit in zip(gold, hits, strict=True)]  # fmt: skip
        references.append(" ".join(f"w{number}.{i}_{tag}" for i, tag in enumerate(gold)))
        lines.append(" ".join(f"w{number}.{i}_{tag}" for i, tag in enumerate(taken)))
    score = sum(map(sum, sentences)) / sum(map(len, sentences))
    return _with_texts(folder, lines, references, split, score, settings)


def write_sentiment_run(
    folder: Path, predicted: str, gold: str, *, split: str = "test", **settings: Any
) -> Path:
    """A classifier's run with one label a character, such as predicted="ppnn", gold="pnnn"."""
    lines = [f"{label}\ttext {i}" for i, label in enumerate(predicted)]
    references = [f"{label}\ttext {i}" for i, label in enumerate(gold)]
    score = sum(a == b for a, b in zip(predicted, gold, strict=True)) / len(gold)
    settings = {"task": "sentiment", **settings}
    return _with_texts(folder, lines, references, split, score, settings)


def write_translation_run(
    folder: Path, hypotheses: list[str], references: list[str], *, split="test", **settings: Any
) -> Path:
    """A translator's run with its hypotheses."""
    sums = bleu_statistics(hypotheses, references).sum(axis=0)
    settings = {"task": "translation", **settings}
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    return _with_texts(folder, hypotheses, references, split, float(score_of("bleu", sums)),
                       settings, bleu_signature=signature)  # fmt: skip


def _with_texts(
    folder: Path,
    lines: Sequence[str],
    references: Sequence[str],
    split: str,
    score: float,
    settings: dict[str, Any],
    **summary: Any,
) -> Path:
    run = write_run(folder, **{"dev": score, **settings, split: score})
    result = json.loads((run / "result.json").read_text())
    stem = run / "eval" / f"{split}-{result['best_step']}"
    stem.parent.mkdir()
    for kind, texts in (("predictions", lines), ("references", references)):
        text = "".join(f"{line}\n" for line in texts)
        stem.with_name(f"{stem.name}.{kind}.txt").write_text(text, encoding="utf-8")
    summary = {"split": split, "step": result["best_step"], **summary}
    stem.with_name(f"{stem.name}.json").write_text(json.dumps(summary), encoding="utf-8")
    return run


def write_sweep(folder: Path, trials: Sequence[Mapping[str, Any]]) -> Path:
    """A sweep directory; each trial has `status`, and the keys of `write_run` (or `run=False`)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.json").write_text("{}", encoding="utf-8")
    rows = []
    for number, given in enumerate(trials):
        settings = dict(given)
        status, has_run = settings.pop("status", "complete"), settings.pop("run", True)
        noted = settings.pop("row", {})
        name = f"{number:016x}"
        if has_run:
            settings.setdefault("result", {})
            inside = settings.pop("run_status", "complete" if status == "complete" else "running")
            write_run(folder / "trials" / name, status=inside, **settings)
        rows.append(
            {"trial": number, "config_hash": name, "overrides": {}, "status": status,
             "workdir": f"trials/{name}", "metric": settings.get("dev"), "attempts": 1, **noted}
        )  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "trials.jsonl").write_text(text, encoding="utf-8")
    return folder


def rows_of(folder, **options):
    """The rows by their names."""
    found = compare([str(folder)], Options(**options))
    return {chosen.row.name: chosen.row for chosen in found.chosen}
