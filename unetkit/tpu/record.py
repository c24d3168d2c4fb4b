"""What the compiler said about one program: its verdict, its figures and its own text, as a folder of small files.

record.json           verdict, figures, versions
program.txt.gz        the optimised program (HLO text with layouts, tiles, fusions and, if code was generated, cycles)
buffers.txt.gz        which value lives where (the compiler's buffer assignment)
ranges.txt.gz         from when to when (its live ranges)
module.hlo.pb.gz      the same program and buffer assignment as a proto, which XProf opens
"""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Outcome = Literal["compiled", "memory", "oom", "failed", "crashed"]

TEXTS = {
    "program.txt.gz": ("after_codegen.txt", "after_optimizations.txt"),
    "buffers.txt.gz": ("after_optimizations-buffer-assignment.txt",),
    "ranges.txt.gz": ("after_optimizations-live-range.txt",),
    "module.hlo.pb.gz": ("after_optimizations.hlo.pb",),
}
"""Our file -> how the compiler's ends, the best first."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One compilation.

    Attributes:
        outcome: `compiled`; `memory` when it was stopped once all buffers had their place (it fits, no cycles are known);
            `oom` when it does not fit; `failed` when the compiler refused it; `crashed` when the compiler died.
        message: the compiler's words for the last three.
        memory: argument, output, alias, temp, code, peak bytes of one device, as far as known.
        cost: what XLA counts: `flops`, `bytes accessed`.
        compiler: what the compiler says of itself.
        seconds: how long the compilation took.
        folder: where the texts are.
    """

    outcome: Outcome
    message: str | None = None
    memory: dict[str, int] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    compiler: str | None = None
    seconds: float | None = None
    folder: Path | None = None

    @property
    def program(self) -> str:
        """HLO text, empty when there is none."""
        return self._text("program.txt.gz")

    @property
    def buffers(self) -> str:
        return self._text("buffers.txt.gz")

    @property
    def ranges(self) -> str:
        return self._text("ranges.txt.gz")

    @property
    def proto(self) -> bytes | None:
        """Serialised `xla.HloProto` with its buffer assignment; None when the compiler did not come that far."""
        path = self.folder and self.folder / "module.hlo.pb.gz"
        return gzip.decompress(path.read_bytes()) if path and path.exists() else None

    def _text(self, name: str) -> str:
        path = self.folder and self.folder / name
        return gzip.decompress(path.read_bytes()).decode() if path and path.exists() else ""


def save(folder: Path, record: Record, dump: Path) -> None:
    """Writes a record into an empty folder, with what it needs of the compiler's dump."""
    found = [p for p in sorted(dump.iterdir()) if p.is_file()] if dump.is_dir() else []
    for name, endings in TEXTS.items():
        source = next((p for ending in endings for p in found if p.name.endswith("." + ending)), None)
        if source:
            (folder / name).write_bytes(gzip.compress(source.read_bytes(), 6, mtime=0))
    plain = {k: v for k, v in asdict(record).items() if k != "folder"}
    (folder / "record.json").write_text(json.dumps(plain, indent=1))


def load(folder: Path) -> Record:
    return Record(**json.loads((folder / "record.json").read_text()), folder=folder)
