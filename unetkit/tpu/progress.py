"""What is shown while a compilation runs: its stage, the seconds so far, and how long such a one usually takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Show = Callable[[str, float, float | None], None]
"""(stage, seconds so far, seconds expected or None)"""


def quiet(stage: str, seconds: float, expected: float | None) -> None:
    """Shows nothing."""


class Line:
    """One line on stderr that is rewritten in place on a terminal; elsewhere (a log file, CI) a new one every `pause` seconds."""

    def __init__(self, label: str, stream=None, pause: float = 30.0) -> None:
        self.label, self.stream, self.pause = label, stream or sys.stderr, pause
        self.live = self.stream.isatty()
        self.written = time.monotonic()
        self.shown = False

    def __call__(self, stage: str, seconds: float, expected: float | None) -> None:
        if not self.live and time.monotonic() - self.written < self.pause:
            return
        self.written = time.monotonic()
        about = f", about {expected:.0f} s expected" if expected else ""
        text = f"{self.label}: {stage}, {seconds:.0f} s{about}"
        self.stream.write(f"\r\x1b[2K{text}" if self.live else f"{text}\n")
        self.stream.flush()
        self.shown = self.live

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *exception) -> None:
        if self.shown:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()
