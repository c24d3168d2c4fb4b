"""What a logger is told. It never trains, and training never waits for it longer than a call takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Log:
    """Extension point: one place where a run's numbers and pictures go. Each method does nothing unless overridden."""

    title = "log"

    def record(self, line: Mapping[str, Any]) -> None:
        """A line of stats.jsonl: `step`, `images` and numbers; null where a number was not finite or is not known yet."""

    def picture(self, step: int, path: Path) -> None:
        """A picture of samples, as PNG."""

    def finish(self, checkpoint: Path | None) -> None:
        """The run is done; `checkpoint` is the folder of its last one."""

    def close(self, status: int) -> None:
        """The last call, also after an error: 0 when the run is done, else the exit status it ends with."""
