"""The memory viewer: what is alive at the peak and over the program's order, with each buffer's layer and kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from unetkit.tpu import profile
from unetkit.tpu.answer import Buffer, BufferKind, Curve, Hbm, Padding
from unetkit.tpu.buffers import Memory, Value
from unetkit.tpu.hlo import Computation, Instruction, Module
from unetkit.tpu.layers import Place
from unetkit.tpu.lower import Argument

SHOWN_BUFFERS = 60
SHOWN_POINTS = 600
FOLDED_BELOW = 0.001
"""Buffers below this share of the peak are folded into one row for each kind."""

_BY_PASS: dict[str, BufferKind] = {"forward": "activation", "backward": "gradient", "update": "optimizer", "other": "other"}


class Viewer:
    """Names the buffers of one compiled program.

    Args:
        module: the program.
        memory: its buffers.
        arguments: what the program's arguments are, by the framework's name for them or by number (`#3`).
        layers: names of the model's layers, needed for TensorFlow's programs.
    """

    def __init__(self, module: Module, memory: Memory, arguments: Mapping[str, Argument], layers: frozenset[str] | None = None) -> None:
        self.module, self.memory, self.arguments, self.layers = module, memory, arguments, layers
        self.parameters = {i.name for i in module.entry if i.opcode == "parameter"}
        self.points = memory.curve()
        self.peak = max(range(len(self.points)), key=lambda i: self.points[i][0])

    def padding(self) -> Padding:
        padded, unpadded = self.points[self.peak]
        return Padding(ratio=padded / unpadded if unpadded else None, peak_padded_bytes=padded, peak_unpadded_bytes=unpadded)

    def hbm(self, limit_bytes: int, code_bytes: int | None) -> Hbm:
        sizes = self.memory.sizes
        by_kind: dict[str, int] = defaultdict(int)
        for value in self.memory.values:
            if value.role == "parameter" and value.instruction in self.parameters:
                by_kind[self._describe(value)[0]] += value.size_bytes
        return Hbm(
            limit_bytes=limit_bytes,
            peak_bytes=self.memory.total_bytes,
            argument_bytes=sizes["parameter"],
            output_bytes=sizes["output"],
            alias_bytes=self.memory.donated_bytes,
            temp_bytes=sizes["temporary"] + sizes["constant"],
            code_bytes=code_bytes,
            weight_bytes=by_kind["weight"] + by_kind["other"],
            optimizer_bytes=by_kind["optimizer"],
            input_bytes=by_kind["input"],
        )

    def curve(self) -> Curve:
        """The curve over what runs (arguments and constants come first and run nothing), thinned to the highest of each stretch."""
        idle = {i.name for i in self.module.entry if i.opcode in ("parameter", "constant")}
        running = [i for i, name in enumerate(self.memory.order) if name not in idle or i == self.peak]
        step = max(1, -(-len(running) // SHOWN_POINTS))
        stretches = [running[at : at + step] for at in range(0, len(running), step)]
        kept = [self.peak if self.peak in stretch else max(stretch, key=lambda i: self.points[i][0]) for stretch in stretches]
        return Curve(
            positions=tuple(kept),
            padded_bytes=tuple(self.points[i][0] for i in kept),
            unpadded_bytes=tuple(self.points[i][1] for i in kept),
            instructions=tuple(self.memory.order[i] for i in kept),
            peak=kept.index(self.peak),
        )

    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers alive at the peak, the largest first; small ones folded."""
        alive = sorted(self.memory.alive_at(self.peak), key=lambda v: -v.size_bytes)
        least = FOLDED_BELOW * sum(v.size_bytes for v in alive)
        rows, folded = [], defaultdict(list)
        for value in alive:
            kind, layer = self._describe(value)
            if value.size_bytes < least or len(rows) >= SHOWN_BUFFERS:
                folded[kind].append(value)
                continue
            shape, _, layout = value.shape.partition("{")
            rows.append(
                Buffer(
                    kind=kind,
                    shape=shape,
                    layout="{" + layout if layout else None,
                    unpadded_bytes=value.unpadded_bytes,
                    padded_bytes=value.size_bytes,
                    layer=layer,
                    instruction=value.instruction,
                )
            )
        rows += [
            Buffer(
                kind=kind,
                shape=f"{len(values)} small buffers",
                layout=None,
                unpadded_bytes=sum(v.unpadded_bytes for v in values),
                padded_bytes=sum(v.size_bytes for v in values),
                count=len(values),
            )
            for kind, values in sorted(folded.items(), key=lambda f: -sum(v.size_bytes for v in f[1]))
        ]
        return tuple(rows)

    def _describe(self, value: Value) -> tuple[BufferKind, str | None]:
        """Kind and layer of a buffer."""
        instruction = self.module.entry.instructions.get(value.instruction)
        inside = self.module.entry
        if instruction is None:  # a value of a loop's body
            inside = next((c for c in self.module.computations.values() if value.instruction in c.instructions), inside)
            instruction = inside.instructions.get(value.instruction)
        if instruction is None:
            return "other", None
        if inside is self.module.entry and (known := self._argument(instruction)):
            return known.kind, known.path
        if value.role == "output":
            return "output", None
        if value.role == "constant":
            return "constant", None
        where = self._place(instruction, inside, value.index)
        if where.layer is None and (source := self._argument_behind(instruction, inside)):
            return source.kind, source.path
        return _BY_PASS[where.in_pass], where.layer

    def _argument(self, instruction: Instruction) -> Argument | None:
        if instruction.opcode != "parameter":
            return None
        return self.arguments.get(instruction.op_name or "") or self.arguments.get(f"#{instruction.operands[0]}")

    def _argument_behind(self, instruction: Instruction, inside: Computation) -> Argument | None:
        """The argument that a copy or conversion was made of."""
        for _ in range(4):
            if len(instruction.operands) != 1 or instruction.operands[0] not in inside.instructions:
                return None
            instruction = inside.instructions[instruction.operands[0]]
            if inside is self.module.entry and (known := self._argument(instruction)):
                return known
        return None

    def _place(self, instruction: Instruction, inside: Computation, index: str) -> Place:
        """Place of one result of an instruction: a fusion's results can belong to different layers."""
        if instruction.opcode == "fusion" and index.isdigit():
            fused = self.module.computations[instruction.calls("calls")[0]]
            element = fused.root
            if element.opcode == "tuple" and int(index) < len(element.operands):
                element = fused.instructions[element.operands[int(index)]]
                found = profile.place(self.module, element, fused, self.layers)
                if found.layer:
                    return found
        return profile.place(self.module, instruction, inside, self.layers)
