"""Logs of one JSON object per line: `stats.jsonl`, the numbers of a run by step, and `history.jsonl`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from unetkit import files
from unetkit.errors import UserError, WorkError

_BLOCK = 4096


class Stats:
    """The append-only log of a run. Every line holds its `step` and is on its way to the disk when `write` returns.

    The line of a step is written before the checkpoint of that step is saved, so that resuming from the checkpoint
    neither loses nor repeats a line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: FileIO | None = None

    def write(self, line: Mapping[str, Any]) -> None:
        """Appends one line. Numbers that are not finite become null, for JSON has no word for them.

        Raises:
            WorkError: the disk is full.
        """
        if "step" not in line:
            raise ValueError(f"a line of {self.path.name} needs its step; got only {', '.join(line) or 'nothing'}")
        try:
            if self._stream is None:
                self._stream = _open_to_append(self.path)
            rest = to_line(line)
            while rest:
                rest = rest[self._stream.write(rest) :]
        except OSError as error:
            self.close()  # the next write opens the file anew and takes the half-written line away
            raise WorkError(f"cannot write {self.path}: {error.strerror}") from error

    def sync(self) -> None:
        """Waits until every line is on the disk."""
        if self._stream is not None:
            os.fsync(self._stream.fileno())

    def cut(self, step: int) -> None:
        """Drops the lines after `step`, and any line that a kill left unfinished."""
        self.close()
        if self.path.exists():
            lines = [line for line in _parse(self.path, strict=False) if line.get("step", 0) <= step]
            files.write(self.path, b"".join(map(to_line, lines)))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _open_to_append(path: Path) -> FileIO:
    """Opens `path` at its end, without a last line that a kill left unfinished."""
    stream = FileIO(path, "a+")  # unbuffered: a line is on its way when its write returns
    end = size = stream.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK)
        stream.seek(start)
        line_end = stream.read(end - start).rfind(b"\n")
        if line_end >= 0:
            end = start + line_end + 1
            break
        end = start
    if end < size:
        stream.truncate(end)
    return stream


def read_stats(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, oldest first; none where there is no file. An unfinished last line is left out.

    Raises:
        UserError: another line is not a JSON object.
    """
    return list(_parse(path, strict=True)) if path.exists() else []


def to_line(line: Mapping[str, Any]) -> bytes:
    """One JSON object and a line end."""
    return json.dumps(plain(line), allow_nan=False).encode() + b"\n"


def plain(value: Any) -> Any:
    """`value` in JSON's types: NumPy's scalars as numbers, numbers that are not finite as null."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if not isinstance(value, str) and hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parse(path: Path, *, strict: bool) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        try:
            value = json.loads(line)
            whole = isinstance(value, dict)
        except ValueError:
            whole = False
        if whole and line.endswith(b"\n"):
            yield value
        elif strict and line.endswith(b"\n"):
            raise UserError(f"{path}, line {number}: expected one JSON object, got {line[:60]!r}. Remove the line to go on without it.")
