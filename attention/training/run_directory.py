"""The folder of one training run: the names in it, safe writes, and the metrics read back."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import shutil
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention.errors import UserError
from attention.training.atomic import write_json, write_text

logger = logging.getLogger(__name__)


class RunDirectory:
    """Names and reads everything that `docs` list under "a run directory".

    The path may be relative or begin with `~`; it is resolved once, here, so that a later change of
    the working directory and background threads see the same place. Nothing is created until
    `create` is called.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path_as_given = os.fspath(path)
        self.path = Path(path).expanduser().absolute()
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.result_file = self.path / "result.json"
        self.lock_file = self.path / ".lock"
        self.checkpoints = self.path / "checkpoints"
        self.evaluation = self.path / "eval"
        self.tokenizer = self.path / "tokenizer"
        self.tensorboard = self.path / "tensorboard"
        self.samples = self.path / "samples"

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    def create(self) -> None:
        """Makes the folder, or accepts an empty one or one that already holds a run.

        Raises:
          UserError: the path is a file, cannot be made, or is a folder with other things in it.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"--workdir={self.path} is a file; name a folder")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            entries = {entry.name for entry in self.path.iterdir()}
        except OSError as error:
            raise UserError(f"--workdir={self.path} cannot be used: {error.strerror}") from error
        if self.config_file.is_file():
            return
        # A run killed before it wrote its config leaves some of its own names and nothing else.
        own = {path.name for path in vars(self).values() if isinstance(path, Path)}
        foreign = sorted(name for name in entries - own if not name.endswith(".tmp"))
        if foreign:
            raise UserError(
                f"--workdir={self.path} holds other things ({', '.join(foreign[:3])}"
                f"{', …' if len(foreign) > 3 else ''}) and no run; name a new or empty folder"
            )

    def require(self) -> None:
        """Raises UserError unless a run has been started here."""
        if not self.config_file.is_file():
            exists = self.path.exists()
            what = "is no run directory (no config.json)" if exists else "does not exist"
            raise UserError(f"--workdir={self.path} {what}; train there first, with train.py")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Makes the folder and holds it for this process, until the block or the process ends.

        Raises:
          UserError: as `create`; or another process is training here.
        """
        self.create()
        with self.lock_file.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "another process"
                raise UserError(
                    f"--workdir={self.path} is in use by {holder}; wait for it, stop it, or "
                    "name another folder"
                ) from None
            except OSError as error:
                logger.warning("%s cannot be locked on this file system: %s", self.path, error)
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
            yield

    def read_config(self) -> str | None:
        """Returns the text of config.json, or None in a new run."""
        try:
            return self.config_file.read_text("utf-8")
        except FileNotFoundError:
            return None

    def write_config(self, text: str) -> None:
        """Replaces config.json."""
        write_text(self.config_file, text)

    @property
    def has_progress(self) -> bool:
        """Whether anything was logged or saved here."""
        logged = self.metrics_file.is_file() and self.metrics_file.stat().st_size > 0
        return logged or (self.checkpoints.is_dir() and any(self.checkpoints.iterdir()))

    def forget(self) -> None:
        """Removes what a command leaves that failed before its first step."""
        shutil.rmtree(self.tokenizer, ignore_errors=True)
        self.config_file.unlink(missing_ok=True)

    @property
    def has_tokenizer(self) -> bool:
        """Whether `install_tokenizer` has been done."""
        return self.tokenizer.is_dir()

    def install_tokenizer(self, save: Callable[[Path], None]) -> None:
        """Makes tokenizer/ out of what `save` writes into an empty folder, all of it or nothing."""
        temporary = self.path / "tokenizer.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        save(temporary)
        temporary.rename(self.tokenizer)

    def write_samples(self, step: int, lines: Sequence[str]) -> None:
        """Writes samples/<step>.txt."""
        self.samples.mkdir(exist_ok=True)
        write_text(self.samples / f"{step}.txt", "".join(f"{line}\n" for line in lines))

    def write_evaluation(
        self, name: str, summary: Mapping[str, Any], texts: Mapping[str, Sequence[str]]
    ) -> None:
        """Writes eval/<name>.json, and beside it each of the texts, one line an example."""
        self.evaluation.mkdir(exist_ok=True)
        for kind, lines in texts.items():
            write_text(
                self.evaluation / f"{name}.{kind}.txt", "".join(f"{line}\n" for line in lines)
            )
        write_json(self.evaluation / f"{name}.json", summary)

    def evaluation_files(self, name: str) -> list[str]:
        """Returns what `write_evaluation` has written under a name: the JSON first, then texts."""
        own = re.compile(re.escape(name) + r"\.[a-z]+\.txt")  # a name may be another's beginning
        entries = (path.name for path in self.evaluation.iterdir())
        return [f"{name}.json", *sorted(entry for entry in entries if own.fullmatch(entry))]

    def completed(self, total_steps: int) -> dict[str, Any] | None:
        """Returns result.json if it says that the run is trained and scored to its end, else None.

        The end is so many steps, or where training stopped early.
        """
        result = self.read_result() or {}
        step = result.get("step")
        long = isinstance(step, int) and step >= total_steps
        ended = long or bool(result.get("stopped_early"))
        return result if ended and result.get("status") == "complete" else None

    def read_result(self) -> dict[str, Any] | None:
        """Returns the content of result.json, or None before the first evaluation."""
        try:
            return json.loads(self.result_file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            # Nothing depends on it: it is written again at the next evaluation.
            logger.warning("%s is not valid JSON and is passed over: %s", self.result_file, error)
            return None

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Replaces result.json."""
        write_json(self.result_file, result)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows of metrics.jsonl in file order; a torn last line is left out."""
        return [json.loads(line) for line in self._whole_lines()]

    def eval_rows(self) -> list[dict[str, Any]]:
        """Returns the rows that hold an evaluation on the dev split (`eval/…`)."""
        return [row for row in self.rows() if any(key.startswith("eval/") for key in row)]

    def best_of(self, metric: str) -> Callable[[Collection[int]], int | None]:
        """Returns what picks, of some steps, the one with the highest `metric` on dev.

        Of equals it picks the earliest. It reads metrics.jsonl, which is written before the
        checkpoint of the same step, and so is right also when the run was killed before
        result.json was rewritten. It returns None where no step given was evaluated.

        Args:
          metric: a name in metrics.jsonl, such as "eval/accuracy".
        """

        def best(steps: Collection[int]) -> int | None:
            values = {row["step"]: row.get(metric) for row in self.eval_rows()}
            numbers = {step: v for step, v in values.items() if isinstance(v, int | float)}
            scored = {step: value for step, value in numbers.items() if step in steps}
            return min(scored, key=lambda step: (-scored[step], step), default=None)

        return best

    def truncate_metrics(self, step: int) -> int:
        """Drops the rows after `step`, which a resumed run writes again; returns how many."""
        if not self.metrics_file.exists():
            return 0
        lines = self._whole_lines()
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        write_text(self.metrics_file, "".join(f"{line}\n" for line in kept))
        return len(lines) - len(kept)

    def _whole_lines(self) -> list[str]:
        """Returns the lines that are whole: a killed process may leave half of the last one."""
        try:
            content = self.metrics_file.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return []
        *lines, torn = content.split("\n")
        if torn:
            logger.warning("%s: the unfinished last line is ignored", self.metrics_file)
        for number, line in enumerate(lines, 1):
            _check_row(line, f"{self.metrics_file}:{number}")
        return lines


def _check_row(line: str, where: str) -> None:
    try:
        row = json.loads(line)
        whole = isinstance(row, dict) and isinstance(row.get("step"), int)
    except ValueError:
        whole = False
    if not whole:
        raise UserError(f'{where}: expected a JSON object with an integer "step"')
