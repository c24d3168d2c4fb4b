"""One training step, in a child process: importing an engine can abort a process, and a device that hangs must not hang us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

SECONDS = 300  # a TPU's first compilation takes a minute
LAST_LINES = 6


@dataclass(frozen=True)
class Trial:
    """What became of it."""

    works: bool
    found: str
    remedy: str = ""


def run(engine: str, device: str, seconds: float = SECONDS) -> Trial:
    """Trains one step of a tiny U-Net on `device` (cpu, gpu, tpu or auto) with `engine`."""
    command = [sys.executable, "-m", "unetkit.doctor.step", engine, device]
    environment = {**os.environ, "KERAS_BACKEND": engine}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return Trial(False, f"{engine} on {device}: no answer within {seconds:.0f} s", "is another process holding the device?")
    if done.returncode == 0:
        answer = json.loads(done.stdout.splitlines()[-1])
        return Trial(True, "{engine} on {replicas} x {device}: loss {loss:.4f}, {seconds:.1f} s with its compilation".format(**answer))
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return Trial(
            False, f"{engine} on {device}: killed by {name}\n{_last(done.stderr)}", "the engine and its libraries do not fit together"
        )
    return Trial(False, f"{engine} on {device}: {_last(done.stderr)}", "mend what it says")


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-LAST_LINES:])
