"""The op profile: time by category, by operation and by level of the network, in XProf's words.

A category's flops utilisation is what it computes over what the matrix unit could in that time; its wasted share is
time share x (1 - max(flops utilisation, HBM utilisation)), as XProf defines it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unetkit.tpu.answer import Category, Level, Operation, Part, Pass
from unetkit.tpu.chips import Chip
from unetkit.tpu.fill import matrix_fill
from unetkit.tpu.hlo import Computation, Instruction, Module, convolution
from unetkit.tpu.layers import NOWHERE, Place, place_of
from unetkit.tpu.timing import Timed

MATRIX = frozenset({"convolution", "dot"})
MOVEMENT = frozenset(
    {
        *("copy", "transpose", "reshape", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad", "reverse"),
        *("gather", "scatter", "bitcast-convert"),
    }
)
REDUCTIONS = frozenset({"reduce", "reduce-window", "select-and-scatter"})
VIEWS = frozenset({"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "fusion", "broadcast", "iota"})
"""Names, and values that a fusion makes where they are used."""
CONVERSIONS = frozenset({"convert", "reduce-precision"})

FUSIONS = {"kLoop": "loop fusion", "kInput": "input fusion", "kOutput": "output fusion", "kCustom": "custom fusion"}
OWN_NAME = frozenset(
    {"select-and-scatter", "custom-call", "sort", "scatter", "gather", "rng", "reduce", "reduce-window", "infeed", "outfeed"}
)
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")

SHOWN_OPERATIONS = 40


@dataclass(frozen=True)
class Profile:
    """Rows of the op profile, the longest first, and totals of the whole step."""

    categories: tuple[Category, ...]
    operations: tuple[Operation, ...]
    levels: tuple[Level, ...]
    seconds: float
    flops: float
    moved_bytes: float
    cycles: int
    estimated_from_bytes_share: float


def profile(module: Module, timed: Sequence[Timed], chip: Chip, layers: frozenset[str] | None = None) -> Profile:
    """Sums up the operations of a step.

    Args:
        module: the compiled program.
        timed: its operations with their times.
        chip: whose peaks are the measure.
        layers: names of the model's layers, needed for TensorFlow's programs.
    """
    total = sum(t.seconds for t in timed)
    places = {id(t): place(module, t.instruction, t.inside, layers) for t in timed}
    kinds = {id(t): category(module, t.instruction) for t in timed}
    uncounted = sum(t.seconds for t in timed if t.estimated_from != "cycles")
    ranked = sorted(timed, key=lambda t: -t.seconds)
    return Profile(
        categories=tuple(_category(name, rows, total, chip) for name, rows in _grouped(timed, lambda t: kinds[id(t)])),
        operations=tuple(_operation(module, t, kinds[id(t)], places[id(t)], total, chip, layers) for t in ranked[:SHOWN_OPERATIONS]),
        levels=tuple(
            _level(name, in_pass, rows, total, chip)
            for (name, in_pass), rows in _grouped(timed, lambda t: (places[id(t)].level, places[id(t)].in_pass))
        ),
        seconds=total,
        flops=sum(t.flops for t in timed),
        moved_bytes=sum(t.moved_bytes for t in timed),
        cycles=sum((t.instruction.cycles or 0) * t.runs for t in timed),
        estimated_from_bytes_share=uncounted / total if total else 0.0,
    )


def category(module: Module, instruction: Instruction) -> str:
    """The row of the op profile that an operation belongs to.

    A convolution alone, or fused with nothing but conversions and views of its data, is `convolution`; an output fusion
    around a convolution and further arithmetic is `output fusion` (newer XProf: convolution fusion).
    """
    opcode = instruction.opcode.removesuffix("-start").removesuffix("-done").removesuffix("-update")
    if opcode in COLLECTIVES:
        return opcode
    if opcode in MATRIX:
        return "convolution"
    if instruction.opcode != opcode:
        return "async copy" if opcode in ("copy", "slice", "dynamic-slice", "async") else f"async {opcode}"
    if opcode == "fusion":
        inner = {i.opcode for i in contents(module, instruction)}
        collective = next((c for c in COLLECTIVES if c in inner), None)
        if collective:
            return collective
        if inner & MATRIX:
            return "output fusion" if inner - MATRIX - MOVEMENT - CONVERSIONS else "convolution"
        if inner and inner <= MOVEMENT | CONVERSIONS:
            return "data formatting"
        return next(
            (n for n in ("select-and-scatter", "reduce-window") if n in inner), FUSIONS.get(instruction.fusion_kind or "", "fusion")
        )
    if opcode in MOVEMENT - OWN_NAME or opcode in ("broadcast", "iota"):
        return "data formatting"
    return opcode if opcode in OWN_NAME else "non-fusion elementwise"


def contents(module: Module, fusion: Instruction) -> list[Instruction]:
    """The instructions inside a fusion and the fusions within it; names and views apart."""
    return [i for i, _ in _inside(module, fusion) if i.opcode not in VIEWS]


def _inside(module: Module, fusion: Instruction) -> Iterable[tuple[Instruction, Computation]]:
    for name in fusion.calls("calls"):
        for instruction in module.computations[name]:
            yield instruction, module.computations[name]
            if instruction.opcode == "fusion":
                yield from _inside(module, instruction)


def place(module: Module, instruction: Instruction, inside: Computation, layers: frozenset[str] | None = None) -> Place:
    """Layer and pass of an operation: of the convolution inside it, else its own name, else of what is inside or feeds it.

    A reduction over replicas carries the name of one of the gradients it joins, and is of no layer.
    """
    if instruction.opcode.removesuffix("-start").removesuffix("-done") in COLLECTIVES:
        return NOWHERE
    inner = [i for i in contents(module, instruction) if i.op_name] if instruction.opcode == "fusion" else []
    named = [i.op_name for i in inner if i.opcode in MATRIX] + [instruction.op_name] + [i.op_name for i in reversed(inner)]
    named += [inside.instructions[o].op_name for o in instruction.operands if o in inside.instructions]
    found = [place_of(name, layers) for name in named if name]
    return next((p for p in found if p.layer), next(iter(found), NOWHERE))


def _grouped(timed: Sequence[Timed], key) -> list[tuple]:
    groups: dict = defaultdict(list)
    for t in timed:
        groups[key(t)].append(t)
    return sorted(groups.items(), key=lambda g: -sum(t.seconds for t in g[1]))


def _utilization(timed: Sequence[Timed], chip: Chip) -> tuple[float, float, float]:
    """(flops utilisation, HBM utilisation, 1 - the larger) of some operations, each at most 1."""
    seconds = sum(t.seconds for t in timed)
    if not seconds:
        return 0.0, 0.0, 0.0
    flops = min(1.0, sum(t.flops for t in timed) / (seconds * chip.peak_flops))
    memory = min(1.0, sum(t.moved_bytes for t in timed) / (seconds * chip.hbm_bytes_per_second))
    return flops, memory, 1.0 - max(flops, memory)


def _category(name: str, timed: Sequence[Timed], total: float, chip: Chip) -> Category:
    seconds = sum(t.seconds for t in timed)
    flops, memory, waste = _utilization(timed, chip)
    uncounted = sum(t.seconds for t in timed if t.estimated_from != "cycles")
    return Category(
        name=name,
        time_share=seconds / total if total else 0.0,
        ms=seconds * 1e3,
        operations=len(timed),
        flops_utilization=flops,
        hbm_utilization=memory,
        wasted_share=seconds / total * waste if total else 0.0,
        estimated_from_bytes_share=uncounted / seconds if seconds else 0.0,
    )


def _level(name: str, in_pass: Pass, timed: Sequence[Timed], total: float, chip: Chip) -> Level:
    seconds = sum(t.seconds for t in timed)
    flops, _, waste = _utilization(timed, chip)
    share = seconds / total if total else 0.0
    return Level(name=name, in_pass=in_pass, ms=seconds * 1e3, time_share=share, flops_utilization=flops, wasted_share=share * waste)


def _operation(module: Module, timed: Timed, kind: str, where: Place, total: float, chip: Chip, layers: frozenset[str] | None) -> Operation:
    flops, memory, waste = _utilization([timed], chip)
    share = timed.seconds / total if total else 0.0
    return Operation(
        name=timed.instruction.name,
        category=kind,
        ms=timed.seconds * 1e3,
        time_share=share,
        shape=timed.instruction.shape,
        layer=where.layer,
        in_pass=where.in_pass,
        estimated_from=timed.estimated_from,
        flops=timed.flops,
        bytes_accessed=timed.moved_bytes,
        flops_utilization=flops,
        hbm_utilization=memory,
        wasted_share=share * waste,
        parts=parts(module, timed.instruction, chip, layers),
    )


def parts(module: Module, fusion: Instruction, chip: Chip, layers: frozenset[str] | None = None) -> tuple[Part, ...]:
    """What a fusion is made of, alike instructions of one layer together, the most costly first.

    A share is of the fusion's arithmetic: a convolution's FLOPs at the matrix unit's peak, every other instruction's
    elements (of a reduction: those it reads) at the vector unit's.
    """
    if fusion.opcode != "fusion":
        return ()
    rows: dict[tuple, list[tuple[float, Instruction, Computation]]] = defaultdict(list)
    for instruction, inside in _inside(module, fusion):
        if instruction.opcode not in VIEWS:
            key = (instruction.opcode, place_of(instruction.op_name, layers).layer)
            rows[key].append((_arithmetic_seconds(module, instruction, inside, chip), instruction, inside))
    total = sum(cost for row in rows.values() for cost, _, _ in row)
    found = []
    for (opcode, layer), row in sorted(rows.items(), key=lambda r: -sum(cost for cost, _, _ in r[1])):
        _, first, inside = row[0]
        fill, why = matrix_fill(convolution(first, inside), chip.generation.matrix_side) if opcode == "convolution" else (None, None)
        found.append(
            Part(
                opcode=opcode,
                kind=_kind(opcode),
                shape=first.shape,
                layer=layer,
                count=len(row),
                flops=sum(module.flops(i, c) for _, i, c in row) if opcode in MATRIX else None,
                share=sum(cost for cost, _, _ in row) / total if total else None,
                fill=fill,
                why=why,
            )
        )
    return tuple(found)


def _arithmetic_seconds(module: Module, instruction: Instruction, inside: Computation, chip: Chip) -> float:
    if instruction.opcode in MATRIX:
        return module.flops(instruction, inside) / chip.peak_flops
    elements = instruction.elements
    if instruction.opcode in REDUCTIONS:
        elements = max([elements, *(inside.instructions[o].elements for o in instruction.operands if o in inside.instructions)])
    return elements / chip.vector_ops_per_second


def _kind(opcode: str) -> str:
    if opcode in MATRIX:
        return "convolution"
    if opcode in REDUCTIONS:
        return "reduction"
    return "data movement" if opcode in MOVEMENT else "element-wise"
