"""Where the arithmetic model puts buffers: layouts, memory on the chip, and what is computed again when memory is short."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from unetkit.tpu import tiles
from unetkit.tpu.answer import BufferKind
from unetkit.tpu.tiles import SUBLANES, Tiled

MIB = 2**20

ON_CHIP_BYTES = {"v4": 96 * MIB, "v5e": 96 * MIB, "v5p": 48 * MIB, "v6e": 96 * MIB, "tpu7x": 48 * MIB}
"""Memory on the chip that takes buffers off HBM: three quarters of it, which is about what the compiler filled.

128 MiB on v4 (CMEM), v5e and v6e, 64 MiB on v5p and tpu7x (VMEM). The 16 MiB of v2 and v3 hold no whole buffers.
"""

ON_CHIP_SHARE = 0.9
"""However small the program, some of it stays in HBM: seen 4 to 14 % of what was alive."""

FEW = {"v2": 2, "v3": 2}
"""Below this batch a row of pixels may take its place in the tile; elsewhere below 8."""

COMPACT = 5
"""An array whose layout is free gets pixels in its lanes where channels or batch there would take this many times as much."""


SQUEEZED = 0.76
"""Making activations again took off no more than this leaves: seen 0.74 to 0.82 for programs too large for their chip."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A buffer and when it is alive: positions count the operations forward, then the same backward, then the update.

    Attributes:
        tensor: index in the graph.
        made_of: tensors from which one operation makes it, where it can be made again.
        pause: last reading forward and first reading backward, between which it need not exist.
    """

    kind: BufferKind
    layer: str
    tensor: int
    tiled: Tiled
    first: int
    last: int
    made_of: frozenset[int] = frozenset()
    pause: tuple[int, int] | None = None


@functools.lru_cache(maxsize=4096)
def place(dtype: str, shape: tuple[int, ...], image: bool, free: bool, generation: str) -> Tiled:
    """An activation in the layout that takes the fewest bytes of those that the compiler considers.

    An image has channels and batch in the tile, or channels and a row of pixels where the batch is small; where it is no
    operand of a convolution (`free`), also pixels and channels, if that saves much. What is no image (fewer dimensions,
    or the result of a matrix product) lies row-major.
    """
    rank = len(shape)
    if rank < 4 or not image:
        return tiles.place(dtype, shape, tuple(range(rank))[::-1], generation)
    batch, channels = 0, rank - 1
    pairs = [(channels, batch), (batch, channels)]
    pairs += [(channels, pixel) for pixel in range(1, channels) if shape[batch] < FEW.get(generation, SUBLANES)]
    best = min((tiles.place(dtype, shape, _order(rank, *pair), generation) for pair in pairs), key=lambda tiled: tiled.padded_bytes)
    compact = tiles.place(dtype, shape, _order(rank, channels - 1, channels), generation)
    return compact if free and COMPACT * compact.padded_bytes <= best.padded_bytes else best


def is_compact(tiled: Tiled) -> bool:
    """Whether an image has pixels in its lanes."""
    return len(tiled.shape) >= 4 and tiled.lanes not in (0, len(tiled.shape) - 1)


@functools.lru_cache(maxsize=4096)
def place_argument(dtype: str, shape: tuple[int, ...], generation: str) -> Tiled:
    """A weight or a batch as the program receives it: row-major, or with two other dimensions in the tile where that is smaller."""
    rank = len(shape)
    rows_first = tuple(range(rank))[::-1]
    orders = [rows_first, *(_order(rank, *pair) for pair in itertools.permutations(rows_first, 2))]
    return min((tiles.place(dtype, shape, order, generation) for order in orders), key=lambda tiled: tiled.padded_bytes)


def _order(rank: int, lanes: int, rows: int) -> tuple[int, ...]:
    """A layout, minor-most dimension first."""
    return (lanes, rows, *(dimension for dimension in reversed(range(rank)) if dimension not in (lanes, rows)))


class Timeline:
    """Which buffers lie in HBM at each position of the step.

    Args:
        buffers: the temporary ones.
        generation: of the chip. Where it has memory for whole buffers, those that are needed soonest lie there.
    """

    def __init__(self, buffers: Sequence[Interval], generation: str) -> None:
        self.buffers, self.room = list(buffers), ON_CHIP_BYTES.get(generation, 0)
        self.length = max((buffer.last for buffer in buffers), default=0) + 1
        self.padded = [sum(b.tiled.padded_bytes for b in self.in_hbm(position)) for position in range(self.length)]

    @property
    def peak(self) -> int:
        """The position at which most is alive."""
        return max(range(self.length), key=self.padded.__getitem__)

    def in_hbm(self, position: int) -> list[Interval]:
        """The buffers alive there, those on the chip apart."""
        alive = sorted((b for b in self.buffers if b.first <= position <= b.last), key=lambda b: b.last)
        room, kept = min(self.room, ON_CHIP_SHARE * sum(b.tiled.padded_bytes for b in alive)), []
        for buffer in alive:
            if buffer.tiled.padded_bytes <= room:
                room -= buffer.tiled.padded_bytes
            else:
                kept.append(buffer)
        return kept


def squeeze(buffers: Sequence[Interval], generation: str, limit_bytes: int) -> Timeline:
    """The buffers, some of them made again when they are needed, so that no more than `limit_bytes` are alive if that can be.

    As the compiler does when a program does not fit: at the peak the largest activation that is not in use there, and that
    one operation can make from what is alive later on, is dropped after its last use forward and made again for its first
    use backward; until it fits, or nothing more can be gained.
    """
    line = Timeline(buffers, generation)
    goal = max(limit_bytes, SQUEEZED * line.padded[line.peak])
    while line.padded[line.peak] > goal:
        peak = line.peak
        droppable = [b for b in line.in_hbm(peak) if b.pause and b.pause[0] < peak < b.pause[1] - 1 and _sources_alive(line, b)]
        if not droppable:
            break
        drop = max(droppable, key=lambda b: b.tiled.padded_bytes)
        until, again = drop.pause
        rest = [b for b in line.buffers if b is not drop]
        parts = [dataclasses.replace(drop, last=until, pause=None), dataclasses.replace(drop, first=again - 1, pause=None)]
        line = Timeline([*rest, *parts], generation)
    return line


def _sources_alive(line: Timeline, buffer: Interval) -> bool:
    """Whether all that makes a buffer is there when it would be made again."""
    again = buffer.pause[1] - 1
    known = {b.tensor for b in line.buffers}
    alive = {b.tensor for b in line.buffers if b.first <= again <= b.last and b.kind == "activation"}
    return all(tensor in alive or tensor not in known for tensor in buffer.made_of)
