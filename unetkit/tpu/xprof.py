"""An answer as a profile that XProf opens: its memory viewer, op profile, HLO statistics and roofline show our program.

XProf (`pip install xprof`, then `xprof --logdir DIR`) looks in `DIR/plugins/profile/RUN` for

    MODULE.hlo_proto.pb   the program with its buffer assignment: the compiler's own dump, untouched (memory viewer)
    HOST.xplane.pb        an XSpace: what ran when on which device (all other pages)

The XSpace is written here by hand from the estimated times, as one step on one core. Nothing in it was measured, and its
host is called `compiler_estimate` so that nobody takes it for a trace. Field numbers are those of `xplane.proto` in OpenXLA.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unetkit import files
from unetkit.errors import WorkError
from unetkit.tpu import analyse, hlo, profile, wire
from unetkit.tpu.chips import Chip
from unetkit.tpu.hlo import Module
from unetkit.tpu.inspection import Inspected
from unetkit.tpu.timing import Timed

HOST = "compiler_estimate"
PROGRAM_ID = 1
_HBM, _READ = 1, 1


@dataclass(frozen=True, kw_only=True)
class Event:
    """One operation of the step, in the order in which it runs: all of its runs together."""

    name: str
    shape: str
    category: str
    seconds: float
    flops: float
    moved_bytes: float
    op_name: str | None = None


def write(found: Inspected, folder: Path) -> Path:
    """Writes the profile of one answer below `folder`, which is what `xprof --logdir` is given; returns the run's folder.

    A program whose code was not generated has no times: XProf then shows its memory alone.

    Raises:
        WorkError: the compiler did not come as far as placing buffers.
    """
    if found.record.proto is None:
        what = found.record.message or "the compiler placed no buffers for this program"
        raise WorkError(f"--xprof: there is nothing for XProf to show: {what}")
    module = hlo.parse(found.record.program)
    place = folder / "plugins" / "profile" / f"{found.answer.name}-{found.answer.chip}-{found.answer.global_batch}"
    place.mkdir(parents=True, exist_ok=True)
    files.write(place / f"{module.name}.hlo_proto.pb", found.record.proto)
    timed = analyse.timed(found.lowered, found.record, module, found.chip)
    files.write(place / f"{HOST}.xplane.pb", space(module.name, events(module, timed), found.chip) if timed else b"")
    return place


def events(module: Module, timed: Iterable[Timed]) -> list[Event]:
    """The operations of a step as they are shown."""
    return [
        Event(
            name=one.instruction.name,
            shape=one.instruction.shape,
            category=profile.category(module, one.instruction),
            seconds=one.seconds,
            flops=one.flops,
            moved_bytes=one.moved_bytes,
            op_name=one.instruction.op_name,
        )
        for one in timed
    ]


def space(module: str, events: Sequence[Event], chip: Chip) -> bytes:
    """The serialised XSpace: one device plane with the lines `Steps`, `XLA Modules` and `XLA Ops`."""
    plane = _Plane("/device:TPU:0")
    end = sum(_picoseconds(event.seconds) for event in events)
    step = plane.event("0", {"group_id": 0}, start=0, duration=end)
    whole = plane.event(f"{module}({PROGRAM_ID})", {"program_id": PROGRAM_ID, "run_id": 1, "group_id": 0}, start=0, duration=end)
    operations, clock = [], 0
    for number, event in enumerate(events):
        known = {
            "hlo_category": event.category,
            "program_id": PROGRAM_ID,
            "symbol_id": number + 1,
            "flops": round(event.flops),
            "model_flops": round(event.flops),
            "bytes_accessed": round(event.moved_bytes),
            "memory_access_breakdown": _traffic(event.moved_bytes),
            "tf_op": event.op_name or "",
        }
        duration = _picoseconds(event.seconds)
        operations.append(plane.event(f"%{event.name} = {event.shape}", {}, start=clock, duration=duration, shown=event.name, known=known))
        clock += duration
    for name, line in (("Steps", [step]), ("XLA Modules", [whole]), ("XLA Ops", operations)):
        plane.line(name, line)
    generation = chip.generation.name
    plane.stats(
        {
            "peak_teraflops_per_second": chip.peak_flops / 1e12,
            "peak_hbm_bw_gigabytes_per_second": chip.hbm_bytes_per_second / 1e9,
            "device_type_string": "TPU7x" if generation == "tpu7x" else f"TPU {generation}",
            "device_id": 0,
        }
    )
    return wire.message(1, plane.encoded()) + wire.text(4, HOST)


def _picoseconds(seconds: float) -> int:
    return round(seconds * 1e12)


def _traffic(moved_bytes: float) -> bytes:
    """A `MemoryAccessBreakdown`: all of it as reads of HBM, since the estimate does not tell reads from writes."""
    return wire.message(1, wire.integer(1, _READ) + wire.integer(2, _HBM) + wire.integer(3, round(moved_bytes)))


class _Plane:
    """An XPlane under construction; events and statistics are named once, in its two tables."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[bytes] = []
        self._events: list[bytes] = []
        self._statistics: dict[str, int] = {}
        self._own = b""

    def event(
        self, name: str, statistics: dict, *, start: int, duration: int, shown: str | None = None, known: dict | None = None
    ) -> bytes:
        """An XEvent; `known` are statistics of the operation, `statistics` of this run of it. Times in picoseconds."""
        number = len(self._events) + 1
        described = wire.integer(1, number) + wire.text(2, name) + wire.text(4, shown or name) + self._stats(5, known or {})
        self._events.append(described)
        return wire.integer(1, number) + wire.integer(2, start) + wire.integer(3, duration) + self._stats(4, statistics)

    def line(self, name: str, events: Iterable[bytes]) -> None:
        content = b"".join(wire.message(4, event) for event in events)
        self._lines.append(wire.integer(1, len(self._lines) + 1) + wire.text(2, name) + content)

    def stats(self, statistics: dict) -> None:
        self._own += self._stats(6, statistics)

    def encoded(self) -> bytes:
        parts = [wire.integer(1, 1) + wire.text(2, self._name)]
        parts += [wire.message(3, line) for line in self._lines]
        parts += [_entry(4, number, event) for number, event in enumerate(self._events, 1)]
        parts += [_entry(5, number, wire.integer(1, number) + wire.text(2, name)) for name, number in self._statistics.items()]
        return b"".join(parts) + self._own

    def _stats(self, field: int, statistics: dict) -> bytes:
        encoded = []
        for name, value in statistics.items():
            number = wire.integer(1, self._statistics.setdefault(name, len(self._statistics) + 1))
            if isinstance(value, str):
                encoded.append(number + wire.text(5, value))
            elif isinstance(value, bytes):
                encoded.append(number + wire.message(6, value))
            elif isinstance(value, float):
                encoded.append(number + wire.double(2, value))
            else:
                encoded.append(number + wire.integer(4, value))
        return b"".join(wire.message(field, stat) for stat in encoded)


def _entry(field: int, key: int, value: bytes) -> bytes:
    """One entry of a map from a number to a message."""
    return wire.message(field, wire.integer(1, key) + wire.message(2, value))
