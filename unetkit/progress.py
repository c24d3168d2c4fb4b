"""The progress line: how far, how fast, how good, how long still."""

import sys
import time
from typing import Protocol


class Progress(Protocol):
    """What the loop reports to."""

    def update(self, images: int, rate: float | None, loss: float | None) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Reports nothing."""

    def update(self, images: int, rate: float | None, loss: float | None) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def clock(seconds: float) -> str:
    """3725 -> 1:02:05."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Count:
    """How many of `total` are done, with rate and time left, once the work takes more than `quiet_seconds`."""

    def __init__(self, total: int, shown: bool, quiet_seconds: float = 2.0) -> None:
        self._line: Progress = Line(total) if shown else Silent()
        self._quiet, self._started = quiet_seconds, time.monotonic()

    def done(self, count: int) -> None:
        seconds = time.monotonic() - self._started
        if seconds > self._quiet:
            self._line.update(count, count / seconds, None)

    def note(self, text: str) -> None:
        self._line.note(text)

    def close(self) -> None:
        self._line.close()


class Line:
    """One line that is rewritten on a terminal; elsewhere (a log file, CI) a new line every `pause` seconds."""

    def __init__(self, total: int, stream=None, pause: float = 10.0) -> None:
        self.total, self.stream, self.pause = total, stream or sys.stderr, pause
        self.live = self.stream.isatty()
        self.written = -float("inf")
        self.shown = ""

    def update(self, images: int, rate: float | None, loss: float | None) -> None:
        now = time.monotonic()
        if now - self.written < (0.1 if self.live else self.pause) and images < self.total:
            return
        self.written = now
        parts = [f"{images:,}/{self.total:,} images", f"{images / self.total:4.0%}"]
        parts.append(f"{rate:,.{0 if rate >= 10 else 1}f} images/s" if rate else "compiling")
        if loss is not None:
            parts.append(f"loss {loss:.4f}")
        if rate:
            parts.append(f"{clock((self.total - images) / rate)} left")
        self._show("  ".join(parts))

    def note(self, text: str) -> None:
        self._clear()
        self.stream.write(text + "\n")
        self.stream.flush()
        if self.live and self.shown:
            self.stream.write(self.shown)

    def close(self) -> None:
        if self.live and self.shown:
            self.stream.write("\n")
            self.stream.flush()
            self.shown = ""

    def _show(self, text: str) -> None:
        self._clear()
        self.stream.write(text if self.live else text + "\n")
        self.stream.flush()
        self.shown = text

    def _clear(self) -> None:
        if self.live and self.shown:
            self.stream.write("\r" + " " * len(self.shown) + "\r")
