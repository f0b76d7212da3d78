"""What a run reports: result.json, the files in eval/, and the closing words."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from attention import configuration
from attention.data.streams import token_streams
from attention.training.clock import Clock
from attention.training.evaluate import Evaluation, Evaluator
from attention.training.experiment import Experiment, hash_of
from attention.training.memory import PeakMemory
from attention.training.peak import matmul_parameters, model_flops, peak_flops
from attention.training.run_directory import RunDirectory
from attention.training.state import count_parameters

_VERSIONED = ("jax", "flax", "optax", "orbax-checkpoint", "grain", "tensorflow-datasets", "numpy")


class Averaged(NamedTuple):
    """The mean of several checkpoints, scored."""

    steps: Sequence[int]
    metrics: Mapping[str, Mapping[str, float]]  # by split


class Record:
    """The evaluations of a run so far, its best step, and the result made of them.

    metrics.jsonl is the memory: what it says of earlier evaluations holds after a resume.
    """

    def __init__(self, experiment: Experiment, clock: Clock, memory: PeakMemory) -> None:
        self._x = experiment
        self._clock = clock
        self._memory = memory
        self._evaluated: dict[int, dict[str, float]] = {}
        for row in experiment.run.eval_rows():
            self._note(row["step"], _without_prefix(row, "eval/"))
        self._matmul_parameters = matmul_parameters(experiment.parts.params)

    def _note(self, step: int, metrics: dict[str, float]) -> None:
        self._evaluated[step] = metrics

    def has_evaluated(self, step: int) -> bool:
        return step in self._evaluated

    @property
    def evaluated(self) -> Collection[int]:
        """The steps that dev was scored at."""
        return self._evaluated.keys()

    @property
    def best_step(self) -> int | None:
        """The step whose dev score is highest, the earliest of equals; None before the first."""
        first = self._x.task.METRICS[0]
        scored = {s: m[first] for s, m in self._evaluated.items() if first in m}
        return min(scored, key=lambda step: (-scored[step], step)) if scored else None

    @property
    def stopped_early(self) -> bool:
        """Whether dev has not improved for `early_stopping_evaluations` evaluations."""
        patience = self._x.config.get("early_stopping_evaluations", 0)
        best = self.best_step
        if not patience or best is None:
            return False
        return sum(step > best for step in self._evaluated) >= patience

    def add_evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Remembers the dev metrics of a step."""
        self._note(step, {**evaluation.metrics, **evaluation.counts})

    def speed(self, rates: dict[str, float]) -> dict[str, float]:
        """A log line's rates with the numbers that follow from them."""
        memory = self._memory.bytes
        return {
            **rates,
            "time/model_flop_utilization": self._utilization(rates["time/tokens_per_second"]),
            **({} if memory is None else {"time/peak_memory_bytes": memory}),
        }

    def _utilization(self, tokens_per_second: float) -> float:
        # Of several streams each parameter multiplies one: source or target, of about equal length.
        streams = len(token_streams(self._x.task.STREAMS))
        needed = model_flops(self._matmul_parameters, tokens_per_second) / streams
        return needed / peak_flops(self._x.config.dtype)

    def write(
        self,
        status: str,
        step: int,
        *,
        best_step: int | None = None,
        metrics: Mapping[str, Mapping[str, float]] | None = None,
        averaged: Averaged | None = None,
    ) -> dict[str, Any]:
        """Writes result.json and returns what it holds.

        Args:
          best_step, metrics: at the end, the checkpoint that was scored and its metrics by split;
            before, the best evaluation so far stands for dev.
          averaged: what is scored besides, in a run that averages checkpoints.
        """
        x, config, clock = self._x, self._x.config, self._clock
        logged = self._evaluated.get(self.best_step, {}) if self.best_step is not None else {}
        final = metrics if metrics is not None else {"dev": logged}
        seconds = max(clock.train_seconds, 1e-9)
        result = {
            "status": status,
            "task": config.task,
            "dataset": config.dataset,
            "variant": variant_name(config),
            "size": config.size,
            "seed": config.seed,
            "step": step,
            "num_params": count_parameters(x.parts.params),
            "stopped_early": self.stopped_early and step < x.total_steps,
            "flops": clock.flops,
            "best_step": None if self.best_step is None else best_step or self.best_step,
            "eval": self._scores(final.get("dev", {})),
            "test": self._scores(final.get("test", {})),
            "num_eval_examples": logged.get("num_eval_examples"),
            "num_eval_tokens": logged.get("num_eval_tokens"),
            "compile_seconds": clock.compile_seconds,
            "train_seconds": clock.train_seconds,
            "steps_per_second": clock.steps / seconds,
            "tokens_per_second": clock.tokens / seconds,
            "input_wait_fraction": clock.wait_seconds / seconds,
            "padding_fraction": 1.0 - clock.tokens / max(clock.positions, 1),
            "peak_memory_bytes": self._memory.bytes,
            "model_flop_utilization": self._utilization(clock.tokens / seconds),
            "device_kind": jax.devices()[0].device_kind,
            "num_devices": jax.device_count(),
            "num_processes": jax.process_count(),
            "runs_at_once": x.parallel.runs_at_once,  # speed and memory are those of all
            "dtype": config.dtype,
            "matmul_precision": config.matmul_precision,
            "config_hash": configuration.config_hash(config),
            "data_hash": x.dataset.split("train").content_hash,
            "eval_hash": eval_hash(x),
            "versions": versions(),
        }
        if averaged is not None:
            result["average"] = {
                "steps": list(averaged.steps),
                "eval": self._scores(averaged.metrics.get("dev", {})),
                "test": self._scores(averaged.metrics.get("test", {})),
            }
        x.run.write_result(result)
        return result

    def _scores(self, metrics: Mapping[str, float]) -> dict[str, float] | None:
        return {name: metrics[name] for name in self._x.task.METRICS if name in metrics} or None


def variant_name(config: Any) -> str | None:
    """The variants of a model, each once: `scaled_dot`, or `sliding_window/additive`."""
    names = [section["variant"] for _, section in configuration.attention_sections(config)]
    return "/".join(dict.fromkeys(names)) or None


def eval_hash(x: Experiment) -> str:
    """A name for what is scored and how: the dev and test files and the scoring settings."""
    files = [f"{name}={x.dataset.splits[name].content_hash}" for name in ("dev", "test")
             if name in x.dataset.splits]  # fmt: skip
    return hash_of(*files, *x.task.scoring_settings(), *x.task.METRICS)


def versions() -> dict[str, str]:
    """The software a result was made with."""
    python = ".".join(map(str, sys.version_info[:3]))
    return {"python": python, **{name: importlib.metadata.version(name) for name in _VERSIONED}}


def write_evaluation(
    run: RunDirectory,
    evaluator: Evaluator,
    evaluation: Evaluation,
    *,
    split: str,
    step: int,
    averaged: Sequence[int] = (),
) -> dict[str, Any]:
    """Writes eval/<split>-<step>.json, and predictions (and references) in file order.

    Args:
      averaged: the steps of which the parameters are the mean; the name is then
        eval/<split>-average-<step>, of the last of them.
    """
    numbers = {"split": split, "step": step, **evaluation.metrics, **evaluation.counts}
    summary = {**numbers, **evaluator.details(evaluation)}
    if averaged:
        summary["averaged_steps"] = list(averaged)
    texts = {"predictions": list(evaluator.lines(evaluation))}
    if references := evaluator.references():
        texts["references"] = references
    run.write_evaluation(evaluation_name(summary), summary, texts)
    return summary


def evaluation_name(summary: Mapping[str, Any]) -> str:
    """The name of an evaluation's files, without their endings."""
    average = "average-" if "averaged_steps" in summary else ""
    return f"{summary['split']}-{average}{summary['step']}"


def _without_prefix(row: dict[str, float], prefix: str) -> dict[str, float]:
    return {name[len(prefix) :]: value for name, value in row.items() if name.startswith(prefix)}


def closing_words(run: RunDirectory, result: dict[str, Any]) -> str:
    """What was written, and what to type next."""
    where = run.path_as_given
    scores = [*_score_lines(result)]
    if average := result.get("average"):
        steps = ", ".join(map(str, average["steps"]))
        scores += [f"the mean of the checkpoints {steps}:", *_score_lines(average)]
    written = sorted(entry.name for entry in run.path.iterdir() if not entry.name.startswith("."))
    python = _python_as_typed()
    split = "test" if result["test"] else "dev"
    return "\n".join(
        [
            f"{result['status']}: {result['variant']} on {result['dataset']}, "
            f"step {result['step']}, best step {result['best_step']}",
            *scores,
            f"wrote {where}: {' '.join(written)}",
            "next:",
            f"  {python} eval.py --workdir={where} --split={split}",
            f"  {python} predict.py --workdir={where} < your_text.txt",
        ]
    )


def _score_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    for split, metrics in (("dev", scores["eval"]), ("test", scores["test"])):
        if metrics:
            line = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            yield f"  {split:5} {line}"


def _python_as_typed() -> str:
    """What starts this interpreter from the user's shell, whether or not its environment is on."""
    if shutil.which("python") == sys.executable:
        return "python"
    here = Path.cwd()
    inside = Path(sys.executable).is_relative_to(here)
    return str(Path(sys.executable).relative_to(here)) if inside else sys.executable
