"""The one writer of `analysis.json`: what was inspected and what was tuned, each kept while the other is written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from unetkit import files
from unetkit.runs import names

Part = Literal["inspect", "tune"]


class AnalysisFile:
    """`analysis.json` of a folder: `{"inspect": ..., "tune": ...}`, either null where it was not asked."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / names.ANALYSIS

    def read(self, part: Part) -> dict[str, Any] | None:
        """One part; None where it is not there, or the file is damaged or another version's."""
        found = self._read().get(part)
        return found if isinstance(found, dict) else None

    def write(self, part: Part, content: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {name: self.read(name) for name in ("inspect", "tune")}
        files.write(self.path, json.dumps({**kept, part: content}, indent=1) + "\n")

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}
