"""What an interrupted `generate` has finished already: a line per output, in the folder of the outputs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unetkit.errors import WorkError

NAME = ".unetkit-generated.jsonl"


class Ledger:
    """Remembers which outputs were made from which input, by the same network with the same settings.

    An output counts as made if it is there and its input has the size and time of change that it had. With another network
    or other settings the ledger begins anew, and so does the work.

    Args:
        folder: of the outputs; made where it is missing.
        settings: all that an output depends on beside its input.

    Raises:
        WorkError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.path = folder / NAME
        key = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._made = self._read(key)
            if self._made is None:
                self._made = {}
                self.path.write_text(json.dumps({"settings": key}) + "\n", encoding="utf-8")
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise WorkError(f"{folder} cannot be written to: {error.strerror or error}") from error

    def has(self, source: Path, target: Path) -> bool:
        """Whether `target` was made from `source` as it is now."""
        return target.exists() and self._made.get(str(target)) == self._state(source)

    def add(self, source: Path, target: Path) -> None:
        """Notes an output that has just been written."""
        # A line that a kill tore off stands before this one: the new line keeps them apart.
        self._file.write("\n" + json.dumps({"target": str(target), "source": self._state(source)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _read(self, key: str) -> dict[str, Any] | None:
        """What is noted of the same settings; None: nothing, or of others."""
        if not self.path.exists():
            return None
        lines = [_parsed(line) for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines()]
        if not lines or lines[0].get("settings") != key:
            return None
        return {line["target"]: line.get("source") for line in lines if "target" in line}

    @staticmethod
    def _state(source: Path) -> list[Any]:
        stat = os.stat(source)
        return [str(source.resolve()), stat.st_size, stat.st_mtime_ns]


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
