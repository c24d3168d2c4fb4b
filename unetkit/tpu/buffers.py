"""Reads the compiler's buffer assignment and live ranges: what is in memory when, with and without tile padding.

A program's memory is made of *allocations*: one per argument, one per output that is not a donated argument, one per
constant, and one large one for everything temporary, in which *values* share space at different times. Values that lie on
one another at one time are one buffer (an operation that works in place).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from unetkit.tpu import tiles

Role = Literal["parameter", "output", "constant", "temporary"]

HBM = 0  # memory space; others are on the chip (vector and scalar memory)

_ALLOCATION = re.compile(r"^allocation (\d+): size (\d+), (.*):$")
_VALUE = re.compile(
    r"^ value: <\d+ (.+?)\{([\d,]*)\} @\d+> \(size=(\d+),offset=(\d+)\): (.+)$|^ value: <\d+ (\S+) @\d+> \(size=(\d+),offset=(\d+)\): (.+)$"
)
_RANGE = re.compile(r"^ {4}(\S+?)\{([\d,]*)\}:(\d+)-(\d+)$")
_ORDER = re.compile(r"^ {4}(\d+):(\S+)$")


@dataclass(frozen=True)
class Value:
    """One buffer: what an instruction (or one element of its tuple) leaves in memory.

    Attributes:
        first, last: positions in the program's order between which it is alive.
        allocation, offset: where it lies.
    """

    instruction: str
    index: str
    shape: str
    size_bytes: int
    allocation: int
    offset: int
    role: Role
    parameter: int | None
    first: int
    last: int

    @functools.cached_property
    def unpadded_bytes(self) -> int:
        return sum(t.unpadded_bytes for t in tiles.find(self.shape)) if not self.shape.startswith("(") else self.size_bytes


@dataclass(frozen=True)
class Memory:
    """All of one device's HBM.

    Attributes:
        values: every buffer.
        order: the program's instructions in the order in which they run.
        sizes: bytes of the allocations by role. `temporary` is what the compiler reserves, gaps included.
        donated_bytes: of the parameters, what the results are written over.
    """

    values: tuple[Value, ...]
    order: tuple[str, ...]
    sizes: dict[Role, int]
    donated_bytes: int

    @property
    def total_bytes(self) -> int:
        """What the program needs, as the compiler compares it with the limit (its code not included)."""
        return sum(self.sizes.values())

    def alive_at(self, position: int) -> list[Value]:
        """Buffers alive at a position; of values that lie on one another, the largest."""
        return _distinct([v for v in self.values if v.first <= position <= v.last])

    def curve(self) -> list[tuple[int, int]]:
        """(padded, unpadded) bytes alive at each position."""
        steady = _distinct([v for v in self.values if v.role != "temporary"])
        base = sum(v.size_bytes for v in steady), sum(v.unpadded_bytes for v in steady)
        starts: dict[int, list[Value]] = {}
        for value in self.values:
            if value.role == "temporary":
                starts.setdefault(value.first, []).append(value)
        points, alive = [], []
        for position in range(len(self.order)):
            alive = [v for v in alive if v.last >= position] + starts.get(position, [])
            now = _distinct(alive)
            points.append((base[0] + sum(v.size_bytes for v in now), base[1] + sum(v.unpadded_bytes for v in now)))
        return points


def parse(assignment: str, ranges: str) -> Memory:
    """Reads the text of `*buffer-assignment.txt` and of `*live-range.txt`."""
    order, spans = _live_ranges(ranges)
    values: list[Value] = []
    sizes: dict[Role, int] = {"parameter": 0, "output": 0, "constant": 0, "temporary": 0}
    role: Role | None = None
    allocation, parameter, donated = 0, None, 0
    for line in assignment.splitlines():
        if match := _ALLOCATION.match(line):
            allocation = int(match[1])
            role, parameter = _role(match[3])
            if role:
                sizes[role] += int(match[2])
            if role == "parameter" and "live-out" in match[3]:
                donated += int(match[2])
        elif role and (match := _VALUE.match(line)):
            name, index, size, offset, shape = match.groups()[:5] if match[1] else (match[6], "", match[7], match[8], match[9])
            whole = role != "temporary"
            first, last = (0, len(order)) if whole else spans.get((name, index), (None, None))
            if first is not None:
                values.append(Value(name, index, shape, int(size), allocation, int(offset), role, parameter, first, last))
    return Memory(tuple(values), tuple(order), sizes, donated)


def _role(words: str) -> tuple[Role | None, int | None]:
    """Role of an allocation by the compiler's words; None for what does not live in HBM."""
    if (color := re.search(r"\bcolor (\d+)", words)) and int(color[1]) != HBM:
        return None, None
    if match := re.search(r"\bparameter (\d+)", words):
        return "parameter", int(match[1])
    if "constant" in words:
        return "constant", None
    if "live-out" in words:
        return "output", None
    return "temporary", None


def _live_ranges(text: str) -> tuple[list[str], dict[tuple[str, str], tuple[int, int]]]:
    order: list[str] = []
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for line in text.splitlines():
        if match := _ORDER.match(line):
            order.append(match[2])
        elif match := _RANGE.match(line):
            spans[match[1], match[2]] = int(match[3]), int(match[4])
    return order, spans


def _distinct(values: list[Value]) -> list[Value]:
    """One value for each piece of memory: of those that lie on one another, the largest, and of equals the latest."""
    kept: list[Value] = []
    allocation, end = None, 0
    for value in sorted(values, key=lambda v: (v.allocation, v.offset, -v.size_bytes, -v.first)):
        if value.allocation != allocation:
            allocation, end = value.allocation, 0
        if value.offset >= end:
            kept.append(value)
        end = max(end, value.offset + value.size_bytes)
    return kept
