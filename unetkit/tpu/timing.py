"""How long each operation of a compiled step takes: the compiler's cycles, or the rule of `uncounted.py` where there are none.

`while` loops count their body as often as it runs; of a `conditional` the longest branch counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from unetkit.tpu import uncounted
from unetkit.tpu.answer import EstimatedFrom
from unetkit.tpu.chips import Chip
from unetkit.tpu.hlo import Computation, Instruction, Module

_PARTS_ONLY = frozenset({"slice", "dynamic-slice", "gather"})
_ASYNC = ("-start", "-done", "-update")


@dataclass(frozen=True)
class Timed:
    """One operation as it runs: `seconds`, `flops` and `moved_bytes` are of all its `runs` together."""

    instruction: Instruction
    inside: Computation
    seconds: float
    estimated_from: EstimatedFrom
    flops: float
    moved_bytes: float
    runs: int = 1


def time_operations(module: Module, chip: Chip) -> list[Timed]:
    """Every operation that takes time, in the order in which they run first."""
    return _time(module, module.entry, chip, runs=1)


def _time(module: Module, computation: Computation, chip: Chip, runs: int) -> list[Timed]:
    timed: list[Timed] = []
    clock = 0.0  # seconds of this computation so far
    started: dict[str, float] = {}  # asynchronous start -> clock
    for instruction in computation:
        if instruction.opcode == "while":
            trips = instruction.trips or trip_count(module, instruction) or 1
            inner = [t for body in instruction.calls("body") for t in _time(module, module.computations[body], chip, runs * trips)]
        elif instruction.opcode == "conditional":
            branches = [_time(module, module.computations[c], chip, runs) for c in instruction.calls("branch_computations")]
            inner = max(branches, key=lambda b: sum(t.seconds for t in b), default=[])
        elif instruction.opcode == "call":
            inner = [t for c in instruction.calls("to_apply") for t in _time(module, module.computations[c], chip, runs)]
        elif instruction.opcode in uncounted.FREE:
            continue
        elif instruction.opcode.endswith(_ASYNC):
            started.setdefault(instruction.name, clock)
            if not instruction.opcode.endswith("-done"):
                continue
            inner = [_finished(module, computation, instruction, chip, clock, started, runs)]
        else:
            inner = [_synchronous(module, computation, instruction, chip, runs)]
        timed += inner
        clock += sum(t.seconds for t in inner) / runs
    return timed


def _synchronous(module: Module, inside: Computation, instruction: Instruction, chip: Chip, runs: int) -> Timed:
    flops = module.flops(instruction, inside)
    moved = moved_bytes(module, inside, instruction)
    if instruction.cycles is not None:
        seconds, origin = instruction.cycles / chip.clock_hz, "cycles"
    elif instruction.opcode in uncounted.COLLECTIVES:
        payload = sum(a.padded_bytes for a in instruction.arrays)
        seconds, origin = uncounted.collective_seconds(instruction.opcode, payload, moved, chip), "links"
    else:
        seconds, origin = uncounted.bytes_seconds(moved, chip), "bytes"
    return Timed(instruction, inside, seconds * runs, origin, flops * runs, moved * runs, runs)


def _finished(
    module: Module, inside: Computation, done: Instruction, chip: Chip, clock: float, started: dict[str, float], runs: int
) -> Timed:
    """The end of an asynchronous operation: what is left of its time after the work scheduled since its start."""
    start = done
    while start.operands and (start.opcode.endswith("-done") or start.opcode.endswith("-update")):
        start = inside.instructions[start.operands[0]]
    kind = start.opcode.removesuffix("-start")
    arrays = done.arrays
    payload = sum(a.padded_bytes for a in arrays)
    operands = [a for name in start.operands if name in inside.instructions for a in inside.instructions[name].arrays]
    moved = sum(a.padded_bytes for a in (*operands, *arrays) if a.space == 0)
    if kind in uncounted.COLLECTIVES:
        seconds, origin = uncounted.collective_seconds(kind, payload, moved, chip), "links"
    else:
        moved = min(moved, payload) if kind == "copy" else moved  # one side of a prefetch lies on the chip
        seconds, origin = uncounted.bytes_seconds(moved, chip), "bytes"
    left = max(0.0, seconds - (clock - started.get(start.name, clock)))
    return Timed(done, inside, left * runs, origin, 0.0, moved * runs, runs)


def moved_bytes(module: Module, inside: Computation, instruction: Instruction) -> float:
    """Bytes of HBM that an operation reads and writes: operands and results as padded; of a sliced operand only the slices."""
    written = sum(a.padded_bytes for a in instruction.arrays if a.space == 0)
    fused = next((module.computations[c] for c in instruction.calls("calls")), None)
    parameters = fused.parameters() if fused else {}
    read = 0
    for position, name in enumerate(instruction.operands):
        arrays = [a for a in inside.instructions[name].arrays if a.space == 0] if name in inside.instructions else []
        whole = sum(a.padded_bytes for a in arrays)
        read += min(whole, _sliced(fused, parameters[position])) if fused and arrays and position in parameters else whole
    if instruction.opcode in _PARTS_ONLY:
        read = written
    return float(read + written)


def _sliced(fused: Computation, parameter: Instruction) -> float:
    """Bytes that a fusion takes of one operand: those of its slices, if it only slices it; else all."""
    users = [i for i in fused if parameter.name in i.operands]
    if users and all(u.opcode in _PARTS_ONLY and u.operands[0] == parameter.name for u in users):
        return sum(a.padded_bytes for u in users for a in u.arrays)
    return float("inf")


def trip_count(module: Module, loop: Instruction) -> int | None:
    """How often a counted loop runs, read from the constant that its condition compares with; None when it has none."""
    for name in loop.calls("condition"):
        condition = module.computations[name]
        constants = [i for c in _with_called(module, condition) for i in c if i.opcode == "constant" and i.shape.startswith("s32[]")]
        if len(constants) == 1 and constants[0].operands[0].isdigit():
            return int(constants[0].operands[0])
    return None


def _with_called(module: Module, computation: Computation) -> list[Computation]:
    return [computation, *(module.computations[c] for i in computation for c in i.calls())]
