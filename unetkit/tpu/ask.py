"""Asks the compiler about a lowered program: from the cache if it was asked before, else in a child process.

The child is `worker.py`, in whichever Python has the compiler. It can crash, run out of memory or be interrupted; all of
these come back as a `Record` or kill the child, never this process.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unetkit.tpu import child, progress, worker
from unetkit.tpu.cache import Cache
from unetkit.tpu.chips import Chip
from unetkit.tpu.environment import Interpreter, find_interpreter
from unetkit.tpu.record import Record, load, save

FORMAT = 1
"""Raised whenever what `worker.py` or `record.py` write changes its meaning, so that old entries are not read."""

Stage = Literal["full", "memory"]
"""`memory` stops once every buffer has its place: a few seconds, no cycles. `full` generates code: minutes."""

STAGES = (
    ("after_codegen.txt", "finishing"),
    (worker.ASSIGNED, "generating code"),
    ("after_optimizations_before_buffer_assignment.txt", "placing buffers"),
    ("before_optimizations.txt", "optimising"),
)
"""End of a file in the compiler's dump -> what it does after writing it, the latest first."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A lowered training step.

    Attributes:
        code: StableHLO as MLIR bytecode, or a serialised `HloModuleProto`: TensorFlow's (hlo), or as a TPU ran it (captured).
        replicas, partitions: how many devices run it as copies, and as parts of one sharded program.
        convolutions, convolution_elements: how many it holds and how many elements they make on one device, for an
            expectation of the time.
    """

    code: bytes
    format: Literal["stablehlo", "hlo", "captured"] = "stablehlo"
    replicas: int = 1
    partitions: int = 1
    convolutions: int = 0
    convolution_elements: int = 0

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.code).hexdigest()[:20]


def compile_program(
    program: Program,
    chip: Chip,
    *,
    stage: Stage = "full",
    cache: Cache | None = None,
    interpreter: Interpreter | None = None,
    show: progress.Show = progress.quiet,
) -> tuple[Record, bool]:
    """What the compiler says about `program` on `chip`; whether it was asked before.

    A `full` answer serves where only `memory` is wanted; refusals for size are kept like any other answer. Crashes and
    other failures are not: they may have been the machine's.

    Raises:
        CompilerMissing: no Python here has the compiler.
    """
    cache, interpreter = cache or Cache(), interpreter or find_interpreter()
    full, wanted = (_key(program, chip, interpreter, s) for s in ("full", stage))
    if entry := cache.find(full) or cache.find(wanted):
        return load(entry), True
    with tempfile.TemporaryDirectory(prefix="unetkit-compile-") as name, cache.making(wanted):
        if entry := cache.find(full) or cache.find(wanted):  # another process made it while this one waited
            return load(entry), True
        work = Path(name)
        record = _compile(program, chip, stage, interpreter, work, show)
        if record.outcome in ("crashed", "failed"):
            kept = Path(tempfile.mkdtemp(prefix="unetkit-failure-"))
            save(kept, dataclasses.replace(record, message=f"{record.message} (the compiler's files are kept in {kept})"), work / "dump")
            return load(kept), False
        found = full if record.outcome in ("oom", "compiled") else wanted  # of these, nothing more will ever be known
        return load(cache.put(found, lambda folder: save(folder, record, work / "dump"))), False


def _key(program: Program, chip: Chip, interpreter: Interpreter, stage: str) -> str:
    parts = [FORMAT, program.fingerprint, program.replicas, program.partitions, chip.topology, interpreter.compiler, stage]
    parts += [flags] if (flags := os.environ.get("LIBTPU_INIT_ARGS")) else []  # they reach the compiler too
    return hashlib.sha256(repr(tuple(parts)).encode()).hexdigest()[:32]


def _compile(program: Program, chip: Chip, stage: Stage, interpreter: Interpreter, work: Path, show: progress.Show) -> Record:
    request: dict[str, Any] = {
        "format": program.format,
        "topology": chip.topology,
        "topology_options": chip.generation.topology_options,
        "replicas": program.replicas,
        "partitions": program.partitions,
        "stage": stage,
    }
    (work / "request.json").write_text(json.dumps(request))
    (work / "program").write_bytes(program.code)
    environment = {**os.environ, **worker.ENVIRONMENT, "TPU_ACCELERATOR_TYPE": chip.name, "TPU_WORKER_HOSTNAMES": "localhost"}
    environment["XLA_FLAGS"] = worker.dump_flags(work)
    expected = expected_seconds(program) if stage == "full" else None
    command = [interpreter.python, worker.__file__, str(work)]
    ended = child.run(command, environment, lambda seconds: show(stage_of(work / "dump"), seconds, expected))
    if not (work / "result.json").exists():
        words = ended.stderr.splitlines()[-1:] or ["it said nothing"]
        message = f"The compiler died ({ended.death}) while {stage_of(work / 'dump')}: {words[0]}"
        versions = {k: v for k, v in interpreter.versions.items() if k in worker.TESTED}
        return Record(outcome="crashed", message=message, versions=versions, seconds=ended.seconds)
    return Record(**json.loads((work / "result.json").read_text()))


def stage_of(dump: Path) -> str:
    """What the compiler is doing, told by the files it has written."""
    names = os.listdir(dump) if dump.is_dir() else []
    return next((stage for ending, stage in STAGES if any(n.endswith("." + ending) for n in names)), "starting the compiler")


def expected_seconds(program: Program) -> float | None:
    """About how long generating code takes on two cores; None for a program without convolutions.

    Seen there: 0.3 s for each convolution where one makes 65 thousand elements, 4 s where it makes 20 million.
    """
    if not program.convolutions or not program.convolution_elements:
        return None
    decades = math.log10(program.convolution_elements / program.convolutions / 65e3)
    return 3.0 + program.convolutions * max(0.1, 0.3 + 1.5 * decades)
