"""Reads the compiler's optimised HLO text: computations, instructions, shapes with layouts, layer names, cycles, FLOPs.

Only what the TPU rooms ask for is kept. The text is the compiler's own (`after_codegen.txt` of its dump, or `as_text()`);
`estimated_cycles` appear in it once code was generated.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from unetkit.errors import UserError
from unetkit.tpu import tiles
from unetkit.tpu.tiles import Tiled

_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_CALLED = re.compile(r"\b(calls|to_apply|body|condition|select|scatter|branch_computations)=(\{[^}]*\}|%?[\w.\-]+)")
_NAME = re.compile(r"%([\w.\-]+)")
_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_EMITTER = re.compile(r'"emitter":"(\w+)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


@dataclass(frozen=True)
class Instruction:
    """One instruction. `shape` is the compiler's text; `arrays` are its array shapes, those inside a tuple one by one."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    op_name: str | None = None
    cycles: int | None = None
    emitter: str | None = None
    trips: int | None = None
    is_root: bool = False
    called: tuple[tuple[str, str], ...] = ()

    @functools.cached_property
    def arrays(self) -> tuple[Tiled, ...]:
        return tuple(tiles.find(self.shape))

    @property
    def fusion_kind(self) -> str | None:
        """kLoop, kOutput, kInput or kCustom of a fusion."""
        return self.attribute("kind") if self.opcode == "fusion" else None

    @property
    def elements(self) -> int:
        return sum(math.prod(a.shape) for a in self.arrays)

    def attribute(self, name: str) -> str | None:
        """The text of one attribute: `dim_labels`, `window` (without braces), `index`, ..."""
        match = re.search(rf"\b{name}=(\{{[^}}]*\}}|[^\s,]+)", self.attributes)
        return match[1].strip("{}") if match else None

    def calls(self, role: str | None = None) -> tuple[str, ...]:
        """Names of the computations it calls, in one role (`calls`, `body`, `condition`, `to_apply` ...) or in any."""
        return tuple(name for r, name in self.called if role in (None, r))


@dataclass(frozen=True)
class Computation:
    """A function of the module, its instructions in the order in which they run."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())

    @property
    def root(self) -> Instruction:
        return next((i for i in self if i.is_root), next(reversed(self.instructions.values())))

    def parameters(self) -> dict[int, Instruction]:
        """Parameters by number."""
        return {int(i.operands[0]): i for i in self if i.opcode == "parameter"}


@dataclass(frozen=True)
class Module:
    """An optimised program. `partitions` and `replicas` say for how many devices it was compiled."""

    name: str
    computations: dict[str, Computation]
    entry: Computation
    replicas: int = 1
    partitions: int = 1

    def flops(self, instruction: Instruction, inside: Computation) -> float:
        """FLOPs of the convolutions and matrix products that an instruction runs, once."""
        if instruction.opcode == "convolution":
            return convolution_flops(instruction, inside)
        if instruction.opcode == "dot":
            return dot_flops(instruction, inside)
        called = (self.computations[c] for c in instruction.calls("calls"))
        return sum(self.flops(i, c) for c in called for i in c)


def parse(text: str) -> Module:
    """Reads a module.

    Raises:
        UserError: the text is no HLO module.
    """
    lines = text.splitlines()
    head = next((line for line in lines if line.startswith("HloModule ")), None)
    if head is None:
        raise UserError("expected the text of an optimised program, which starts with `HloModule`")
    computations: dict[str, Computation] = {}
    entry = current = None
    for line in lines:
        if not line.startswith(" "):
            if match := _HEAD.match(line):
                current = computations.setdefault(match[2], Computation(match[2]))
                entry = current if match[1] else entry
        elif current is not None and (instruction := _instruction(line)):
            current.instructions[instruction.name] = instruction
    if entry is None:
        raise UserError("expected an HLO module with an ENTRY computation")
    counts = {n: int(m[1]) if (m := re.search(rf"\b{n}=(\d+)", head)) else 1 for n in ("replica_count", "num_partitions")}
    name = head.split()[1].rstrip(",")
    return Module(name, computations, entry, counts["replica_count"], counts["num_partitions"])


def _instruction(line: str) -> Instruction | None:
    left, equals, right = line.strip().partition(" = ")
    if not equals:
        return None
    is_root = left.startswith("ROOT ")
    shape_end = _closing(right, 0) + 1 if right.startswith("(") else right.index(" ")
    rest = right[shape_end:].lstrip()
    opening = rest.index("(")
    closing = _closing(rest, opening)
    opcode, inner = rest[:opening], rest[opening + 1 : closing]
    tail = rest[closing + 1 :]
    attributes, _, config = tail.partition(", backend_config=")
    attributes, _, metadata = attributes.partition(", metadata={")
    name = _OP_NAME.search(metadata)
    operands = (inner,) if opcode in ("parameter", "constant") else tuple(_NAME.findall(inner))
    called = tuple((m[1], n.strip(" %{}")) for m in _CALLED.finditer(attributes) for n in m[2].split(","))
    cycles, emitter, trips = _CYCLES.search(config), _EMITTER.search(config), _TRIPS.search(config)
    return Instruction(
        name=left.removeprefix("ROOT ").lstrip("%"),
        shape=right[:shape_end],
        opcode=opcode,
        operands=operands,
        attributes=attributes,
        op_name=name[1].replace("\\'", "'") if name else None,
        cycles=int(cycles[1]) if cycles else None,
        emitter=emitter[1] if emitter else None,
        trips=int(trips[1]) if trips else None,
        is_root=is_root,
        called=called,
    )


def _closing(text: str, opening: int) -> int:
    """Position of the bracket that closes the one at `opening`; strings are skipped."""
    depth, quoted = 0, False
    for position in range(opening, len(text)):
        character = text[position]
        if character == '"' and text[position - 1] != "\\":
            quoted = not quoted
        elif not quoted and character == "(":
            depth += 1
        elif not quoted and character == ")":
            depth -= 1
            if depth == 0:
                return position
    raise UserError(f"unbalanced brackets in the program's text: {text[:80]}")


@dataclass(frozen=True)
class Convolution:
    """The sizes of one convolution, as its `dim_labels` and `window` name them.

    Attributes:
        batch, features: contracted with the kernel's inputs: images, and channels of each.
        outputs: channels of the result.
        rows: the result's batch: images, or input channels where the result is a kernel's gradient.
        meetings: (output, kernel) positions where the kernel meets a real input, over all axes.
        positions: all of them, with those that meet padding or a zero put in by dilation.
        taps: positions of the kernel, whether it is an operand or the result.
        is_gradient_of_kernel: whether images are contracted, not channels.
    """

    batch: float
    features: int
    outputs: int
    rows: int
    meetings: int
    positions: int
    taps: int
    dilated: bool
    is_gradient_of_kernel: bool

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.features * self.outputs * self.meetings


def convolution(instruction: Instruction, inside: Computation) -> Convolution:
    """Sizes of a `convolution` instruction.

    Its FLOPs are 2 x multiply-adds, counting only positions where the kernel meets a real input, as XLA's cost analysis
    does: zeros from padding and from dilation (a transposed convolution's) are not counted.
    """
    left, right = (inside.instructions[name].arrays[0].shape for name in instruction.operands[:2])
    output = instruction.arrays[0].shape
    sides, out = (instruction.attribute("dim_labels") or "").split("->")
    inputs, kernel = sides.split("_")
    axes = sum(c.isdigit() for c in inputs)
    window = _window(instruction.attribute("window") or "", axes)
    meetings = positions = 1
    for axis, (stride, low, base, step) in enumerate(window):
        digit = str(axis)
        size, taps, results = left[inputs.index(digit)], right[kernel.index(digit)], output[out.index(digit)]
        meetings *= _meetings(size, taps, results, stride, low, base, step)
        positions *= taps * results
    kernels = math.prod(right[kernel.index(str(axis))] for axis in range(axes))
    results = math.prod(output[out.index(str(axis))] for axis in range(axes))
    return Convolution(
        batch=left[inputs.index("b")] / int(instruction.attribute("batch_group_count") or 1),
        features=right[kernel.index("i")],
        outputs=output[out.index("f")],
        rows=output[out.index("b")],
        meetings=meetings,
        positions=positions,
        taps=min(kernels, results),
        dilated=any(base > 1 for _, _, base, _ in window),
        is_gradient_of_kernel=kernels > results,
    )


def convolution_flops(instruction: Instruction, inside: Computation) -> float:
    """2 x multiply-adds of a convolution; see `convolution`."""
    return convolution(instruction, inside).flops


def _meetings(size: int, kernel: int, output: int, stride: int, low: int, base: int, step: int) -> int:
    """How many (output, kernel) positions of one axis meet a real input."""
    end = (size - 1) * base
    total = 0
    for k in range(kernel):
        offset = k * step - low
        if base == 1:  # the outputs that meet the input are an interval
            total += max(0, min(output - 1, (end - offset) // stride) - max(0, -(offset // stride)) + 1)
        else:
            total += sum(1 for o in range(output) if 0 <= (at := o * stride + offset) <= end and at % base == 0)
    return total


def _window(text: str, axes: int) -> list[tuple[int, int, int, int]]:
    """Per spatial axis: stride, low padding, dilation of the input, dilation of the kernel."""
    parts = dict(part.split("=", 1) for part in text.split() if "=" in part)

    def numbers(name: str, default: str) -> list[int]:
        return [int(n.split("_")[0]) for n in (parts[name].split("x") if name in parts else [default] * axes)]

    return list(zip(numbers("stride", "1"), numbers("pad", "0"), numbers("lhs_dilate", "1"), numbers("rhs_dilate", "1"), strict=True))


def dot_flops(instruction: Instruction, inside: Computation) -> float:
    """2 x multiply-adds of a matrix product."""
    left = inside.instructions[instruction.operands[0]].arrays[0].shape
    contracted = instruction.attribute("lhs_contracting_dims") or ""
    return 2.0 * instruction.elements * math.prod(left[int(n)] for n in contracted.split(",") if n)
