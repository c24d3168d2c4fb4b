"""How long a training step takes, by rules: no compiler is asked.

A contraction (convolution, matrix product) takes the longer of its arithmetic and its memory traffic. Its arithmetic runs
at `EFFICIENCY` of the matrix unit's peak times the share of the unit that its channels fill, to the power `FILL`; the zeros
that a stride puts between inputs are multiplied like any other number. Everything else takes its traffic. The constants
were read off the cycles that the compiler gave one U-Net on v2 (64 px, batch 16 per core); they make a first answer, no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unetkit.tpu import uncounted
from unetkit.tpu.answer import Category, Level, Operation, Pass
from unetkit.tpu.chips import Chip
from unetkit.tpu.layers import Place
from unetkit.tpu.model_graph import Graph, Op
from unetkit.tpu.model_memory import CONTRACTIONS, MATERIAL, MAX_WINDOWS, PRODUCTS, is_small
from unetkit.tpu.model_space import place
from unetkit.tpu.tiles import Tiled

EFFICIENCY = 0.92
BANDWIDTH = 0.9
FILL = 0.75


@dataclass(frozen=True, kw_only=True)
class Work:
    """One operation of the step: FLOPs of use and bytes of HBM traffic in so many seconds."""

    name: str
    category: str
    in_pass: Pass
    layer: str | None
    seconds: float
    flops: float = 0.0
    moved_bytes: float = 0.0


def step(graph: Graph, weights: Sequence[Tiled], slots: Sequence[Tiled], chip: Chip) -> list[Work]:
    """The operations of one step: forward, backward, the gradients' all-reduce and the update.

    Args:
        graph: the forward pass of one replica's batch.
        weights: the trained ones.
        slots: the optimizer's state.
        chip: where it runs.
    """
    works = [*_forward(graph, chip), *_backward(graph, chip)]
    if chip.replicas > 1:
        payload = sum(weight.padded_bytes for weight in weights)
        seconds = uncounted.collective_seconds("all-reduce", payload, 2 * payload, chip)
        name = "all-reduce"
        works.append(Work(name=name, category=name, in_pass="update", layer=None, seconds=seconds, moved_bytes=2 * payload))
    moved = sum(3 * weight.padded_bytes for weight in weights) + sum(2 * slot.padded_bytes for slot in slots)
    works.append(_bound_by_memory("update", "loop fusion", "update", None, moved, chip))
    return works


def _forward(graph: Graph, chip: Chip) -> Iterator[Work]:
    for position, op in enumerate(graph.ops):
        name, moved = f"{op.kind}.{position}", _moved_bytes(graph, op, chip)
        if op.kind in CONTRACTIONS:
            yield _contraction(graph, op, name, "forward", _zeros(graph, op, forward=True), moved, chip)
        elif op.kind in MATERIAL or op.closed or is_small(graph, op):
            yield _bound_by_memory(name, "reduce-window" if op.kind in MAX_WINDOWS else "loop fusion", "forward", op.layer, moved, chip)


def _backward(graph: Graph, chip: Chip) -> Iterator[Work]:
    for position, op in reversed(list(enumerate(graph.ops))):
        name, moved = f"{op.kind}.{position}.gradient", _moved_bytes(graph, op, chip)
        if op.kind in CONTRACTIONS:
            yield _contraction(graph, op, name, "backward", 1.0, moved, chip)
            if op.kind in PRODUCTS or not set(op.inputs) <= set(graph.inputs):
                yield _contraction(graph, op, f"{name}.input", "backward", _zeros(graph, op, forward=False), moved, chip)
        elif op.kind in MATERIAL or op.closed or is_small(graph, op):
            category = "select-and-scatter" if op.kind in MAX_WINDOWS else "loop fusion"
            yield _bound_by_memory(name, category, "backward", op.layer, 2 * moved, chip)


def _contraction(graph: Graph, op: Op, name: str, in_pass: Pass, zeros: float, moved: float, chip: Chip) -> Work:
    flops = contraction_flops(graph, op)
    arithmetic = flops * zeros / (chip.peak_flops * EFFICIENCY * _filled(op, chip) ** FILL)
    traffic = moved / (chip.hbm_bytes_per_second * BANDWIDTH)
    return Work(
        name=name, category="convolution", in_pass=in_pass, layer=op.layer, seconds=max(arithmetic, traffic), flops=flops, moved_bytes=moved
    )


def _bound_by_memory(name: str, category: str, in_pass: Pass, layer: str | None, moved: float, chip: Chip) -> Work:
    seconds = moved / (chip.hbm_bytes_per_second * BANDWIDTH)
    return Work(name=name, category=category, in_pass=in_pass, layer=layer, seconds=seconds, moved_bytes=moved)


def contraction_flops(graph: Graph, op: Op) -> float:
    """FLOPs of use: two for each product of an input and a weight that meet. Channels-last kernels (rows, columns, in, out)."""
    shapes = [graph.tensors[tensor].shape for tensor in (*op.inputs, *op.outputs)]
    out = math.prod(shapes[-1])
    if op.kernel is None:  # a product of two tensors: (m k)(k n)(m n) is the square of m k n
        return 2.0 * math.sqrt(math.prod(shapes[0]) * math.prod(shapes[1 if len(op.inputs) > 1 else 0]) * out / max(1, shapes[-1][0]))
    if "Transpose" in op.kind:
        return 2.0 * math.prod(shapes[0]) * math.prod(op.kernel[:-1])
    if "Depthwise" in op.kind or "Separable" in op.kind:
        return 2.0 * out * math.prod(op.kernel[:-2])
    return 2.0 * out * math.prod(op.kernel[:-1])


def _zeros(graph: Graph, op: Op, *, forward: bool) -> float:
    """How many times more products are computed than meet: a transposed convolution, or the way back through a stride."""
    shapes = [graph.tensors[tensor].shape[1:-1] for tensor in (*op.inputs[:1], *op.outputs[:1])]
    small, large = sorted(math.prod(shape) for shape in shapes)
    dilated = "Conv" in op.kind and ("Transpose" in op.kind) == forward
    return large / small if dilated and small else 1.0


def _filled(op: Op, chip: Chip) -> float:
    """Share of the matrix unit's sides that the channels of a kernel fill."""
    side = chip.generation.matrix_side
    channels = op.kernel[-2:] if op.kernel and len(op.kernel) > 1 else (side, side)
    return math.prod(count / (side * math.ceil(count / side)) for count in channels)


def _moved_bytes(graph: Graph, op: Op, chip: Chip) -> float:
    """What an operation reads and writes, as padded, operands of contractions in 16 bits."""
    arrays = [graph.tensors[tensor] for tensor in (*op.inputs, *op.outputs)]
    dtype = "bf16" if op.kind in CONTRACTIONS else None
    return float(sum(place(dtype or a.dtype, a.shape, op.kind not in PRODUCTS, False, chip.generation.name).padded_bytes for a in arrays))


def operations(works: Sequence[Work], chip: Chip, most: int) -> tuple[Operation, ...]:
    """The longest operations."""
    total = sum(work.seconds for work in works)
    return tuple(
        Operation(
            name=work.name,
            category=work.category,
            ms=work.seconds * 1e3,
            shape="",
            layer=work.layer,
            in_pass=work.in_pass,
            estimated_from="model",
            flops=work.flops,
            bytes_accessed=work.moved_bytes,
            **_use([work], total, chip),
        )
        for work in sorted(works, key=lambda work: -work.seconds)[:most]
    )


def categories(works: Sequence[Work], chip: Chip) -> tuple[Category, ...]:
    """Time by category, the longest first."""
    total = sum(work.seconds for work in works)
    groups = _grouped(works, lambda work: work.category)
    return tuple(
        Category(name=name, ms=_milliseconds(own), operations=len(own), estimated_from_bytes_share=1.0, **_use(own, total, chip))
        for name, own in groups
    )


def levels(works: Sequence[Work], chip: Chip) -> tuple[Level, ...]:
    """Time by level and pass, the longest first."""
    total = sum(work.seconds for work in works)
    groups = _grouped(works, lambda work: (Place(work.layer, work.in_pass).level, work.in_pass))
    found = []
    for (name, in_pass), own in groups:
        use = _use(own, total, chip)
        use.pop("hbm_utilization")
        found.append(Level(name=name, in_pass=in_pass, ms=_milliseconds(own), **use))
    return tuple(found)


def _grouped(works: Sequence[Work], key) -> list:
    groups: dict = {}
    for work in works:
        groups.setdefault(key(work), []).append(work)
    return sorted(groups.items(), key=lambda group: -_milliseconds(group[1]))


def _milliseconds(works: Sequence[Work]) -> float:
    return sum(work.seconds for work in works) * 1e3


def _use(works: Sequence[Work], total: float, chip: Chip) -> dict[str, float]:
    """Share of the step, utilisations and wasted share, as XProf defines them."""
    seconds = sum(work.seconds for work in works) or 1e-30
    flops = min(1.0, sum(work.flops for work in works) / (seconds * chip.peak_flops))
    memory = min(1.0, sum(work.moved_bytes for work in works) / (seconds * chip.hbm_bytes_per_second))
    share = seconds / total if total else 0.0
    return {
        "time_share": share,
        "flops_utilization": flops,
        "hbm_utilization": memory,
        "wasted_share": share * (1 - max(flops, memory)),
    }
