"""The worker processes of one sweep: started, replaced when they die, stopped together."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import attention
from attention.errors import Failure
from attention.sweeping.devices import Share, shares
from attention.sweeping.directory import SweepDirectory
from attention.sweeping.setting import Setting

SCRIPT = Path(attention.__file__).resolve().parents[1] / "sweep.py"
_MOST_EARLY_ENDS = 3
_PATIENCE_SECONDS = 120.0  # a worker that saves is given this long


class Workers:
    """At most `number` processes that take trials; used as a block, at whose end none is left."""

    def __init__(self, number: int, setting: Setting, directory: SweepDirectory) -> None:
        self._setting = setting
        self._directory = directory
        self._free: list[Share] = list(reversed(shares(number)))
        self._running: dict[subprocess.Popen[str], tuple[Share, int]] = {}
        self._early_ends = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
            self.wait(_PATIENCE_SECONDS)
        finally:  # also after a second Ctrl-C
            for process in self._running:
                process.kill()
                process.wait()

    def __len__(self) -> int:
        return len(self._running)

    def keep(self, to_do: int, *, running: Iterable[tuple[str, int] | None], attempts: int) -> None:
        """Starts workers for what is to do, as far as this machine is to have them.

        Args:
          to_do: how many trials nobody runs.
          running: the host and the process of each that somebody runs. Those of others keep no
            worker here, which would find nothing and end; several may be of one process.
          attempts: the tries of all trials so far, from which it is seen that workers get anywhere.

        Raises:
          Failure: workers end again and again before they begin a trial.
        """
        self._collect(attempts)
        own = {(socket.gethostname(), process.pid) for process in self._running}
        wanted = to_do + len(own.intersection(running))
        while self._free and len(self._running) < wanted:
            self._start(self._free.pop(), attempts)

    def stop(self) -> None:
        """Asks all to save and end, which the end of their input tells them."""
        for process in self._running:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()

    def wait(self, seconds: float) -> bool:
        """Returns whether all have ended within that time."""
        end = time.monotonic() + seconds
        while any(process.poll() is None for process in self._running):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def _collect(self, attempts: int) -> None:
        for process, (share, before) in list(self._running.items()):
            status = process.poll()
            if status is None:
                continue
            del self._running[process]
            self._free.append(share)
            idle = status not in (0, 128 + signal.SIGINT) and attempts == before
            self._early_ends = self._early_ends + 1 if idle else 0
        if self._early_ends >= _MOST_EARLY_ENDS:
            raise Failure(
                "workers end before they begin a trial: see the end of "
                f"{self._directory.worker_log}"
            )

    def _start(self, share: Share, attempts: int) -> None:
        command = [sys.executable, str(SCRIPT), "--worker"]
        command += [f"--config={self._setting.spec}", f"--workdir={self._setting.workdir}"]
        with self._directory.worker_log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env={**os.environ, **share.environment},
                # So that Ctrl-C comes to the command alone, which tells its workers.
                start_new_session=True,
            )
        assert process.stdin is not None
        cores = " ".join(str(core) for core in share.cores)
        try:
            process.stdin.write(f"{cores}\n{self._setting.to_json()}\n")
            process.stdin.flush()
        except BrokenPipeError:  # it has died already, and is replaced
            pass
        self._running[process] = (share, attempts)
