"""Child processes that do the heavy or dangerous part: watched while they run, and gone when their parent stops."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """How a child ended: exit status (negative: the signal that killed it), the last lines of its stderr, seconds it ran."""

    status: int
    stderr: str
    seconds: float

    @property
    def death(self) -> str:
        """In words: `killed by SIGSEGV`, `exit status 1`."""
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        return f"exit status {self.status}"


def run(command: Sequence[str], environment: Mapping[str, str], watch: Callable[[float], None] = lambda seconds: None) -> Ended:
    """Runs a command to its end in a process group of its own; `watch(seconds so far)` is called a few times a second.

    Any exception here (Ctrl-C above all) kills the whole group before it goes on.
    """
    started = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
        )
        try:
            while process.poll() is None:
                watch(time.monotonic() - started)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
        except BaseException:
            _kill_group(process)
            raise
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    return Ended(process.returncode, "\n".join(text.strip().splitlines()[-30:]), time.monotonic() - started)


def _kill_group(process: subprocess.Popen) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
