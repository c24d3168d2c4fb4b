"""Lane packing: where each pixel of a map lies, and what a small kernel becomes there. Index arithmetic only.

A TPU keeps channels in 128 lanes. A *packed* map stores a block of r x c neighbouring pixels in the lanes of one cell of a
coarser grid: (b, h, w, C) becomes (b, h/r, w/c, n C) with n = r c, and pixel m of a block, channel k, lies in lane m C + k.

A convolution of the image is then a convolution of the grid. Along one axis, with blocks of r pixels, kernel width K and
centre K//2, output pixel u of a cell reads, for j = 0 .. K-1, input pixel

    e(u, j) = u + j - K//2

counted from the first pixel of the input cell at the same place; that is pixel e mod r of the cell floor(e / r) further on.
So the kernel over cells has one tap for each value of floor(e / r), and between input pixel m and output pixel u it holds the
small kernel's j-th weight where r t + m = e(u, j), and zero elsewhere:

    packed[t, (m, i), (u, o)] = sum over j of S[t, m, u, j] w[j, i, o],    S[t, m, u, j] = [r t + m = e(u, j)]

`Reach` holds e for each kind of convolution, `selection` makes S for all axes together, `expand` the packed kernel. It is
built from the small weights inside every step, so there is no second copy to train, and the sum sends the gradient back.

*Shift.* If the cells of the output begin K//2 pixels later than those of the input, e(u, j) = u + j is never negative: for
K = 3 and r = 2 or more two taps replace three. The next convolution shifts back. In between, the grid has one cell more,
whose first pixel is pixel `shift - r` of the image; what lies outside of the image must be zero before it is read.

docs/lane-packing.md draws it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from keras import ops

NOTHING = np.iinfo(np.int64).min
"""Stands in `Reach` for an output pixel and kernel position that read no input."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a map lies in memory.

    Attributes:
        block: pixels per axis that one cell holds in its lanes.
        parts: channels of each of the maps that were joined: the lanes of the first come first, then those of the next.
        shift: how many pixels later than the image the cells begin, per axis; 0 almost everywhere.
    """

    block: tuple[int, ...]
    parts: tuple[int, ...]
    shift: tuple[int, ...] = ()

    @classmethod
    def read(cls, saved: Layout | dict | None) -> Layout | None:
        """A layout as it is, or from its fields, as the config of a saved layer holds them; None is an image."""
        return cls(**saved) if isinstance(saved, dict) else saved

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", tuple(self.block))
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "shift", tuple(self.shift) or (0,) * len(self.block))

    @property
    def pixels(self) -> int:
        """Pixels of a block."""
        return math.prod(self.block)

    @property
    def channels(self) -> int:
        return sum(self.parts)

    @property
    def lanes(self) -> int:
        return self.pixels * self.channels

    @property
    def origin(self) -> tuple[int, ...]:
        """The image's pixel at which the first cell begins: 0, or negative where the cells are shifted."""
        return tuple(s - r if s else 0 for s, r in zip(self.shift, self.block, strict=True))

    def grid(self, image: Sequence[int]) -> tuple[int, ...]:
        """Cells per axis for an image of this size."""
        return tuple(side // r + bool(s) for side, r, s in zip(image, self.block, self.shift, strict=True))

    def image(self, grid: Sequence[int]) -> tuple[int, ...]:
        """The inverse of `grid`."""
        return tuple((cells - bool(s)) * r for cells, r, s in zip(grid, self.block, self.shift, strict=True))

    def divides(self, image: Sequence[int]) -> bool:
        return all(side % r == 0 for side, r in zip(image, self.block, strict=True))


@functools.cache
def order(block: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The pixels of a block in the order of their lanes.

    Pixels that one 2x2 max-pool compares with each other lie a whole block of the pooled map apart: first all upper left
    ones, then all upper right ones, and so on, each in the order of the pooled map. So pooling is a maximum of slices.
    """
    if math.prod(block) == 1:
        return ((0,) * len(block),)
    phases = tuple(2 if r % 2 == 0 else 1 for r in block)
    if math.prod(phases) == 1:
        return tuple(itertools.product(*map(range, block)))
    inner = order(tuple(r // p for r, p in zip(block, phases, strict=True)))
    return tuple(
        tuple(p * i + a for p, i, a in zip(phases, pixel, phase, strict=True))
        for phase in itertools.product(*map(range, phases))
        for pixel in inner
    )


def factors(block: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A block as the product of blocks by which `order` splits it, the outermost in the lanes first."""
    split = []
    while math.prod(block) > 1:
        phases = tuple(2 if r % 2 == 0 else 1 for r in block)
        phases = block if math.prod(phases) == 1 else phases
        split.append(phases)
        block = tuple(r // p for r, p in zip(block, phases, strict=True))
    return split


def digits(image: Sequence[int], block: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    """How an image becomes cells by one reshape, one transpose and one more reshape.

    Returns:
        (shape without batch and channels, order of its axes from 1 on, cells per axis)
    """
    rank, split = len(block), factors(block)
    axes: list[list[int]] = []  # per axis of the image, the axes it becomes: the cell, then its pixel's digits
    shape: list[int] = []
    for axis in range(rank):
        # a pixel's number is its phase plus 2 x its number in the pooled map, so the last digit is the first factor's
        sides = [image[axis] // block[axis], *(phases[axis] for phases in reversed(split))]
        axes.append(list(range(len(shape) + 1, len(shape) + 1 + len(sides))))
        shape += sides
    lanes = [axes[axis][-1 - level] for level in range(len(split)) for axis in range(rank)]
    return shape, [a[0] for a in axes] + lanes, [shape[a[0] - 1] for a in axes]


def order_of_cells(block: tuple[int, ...], cell: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The pixels of a block of several cells, all of one cell first, then all of the next, each in its own order."""
    steps = (range(r // c) for r, c in zip(block, cell, strict=True))
    return tuple(
        tuple(n * c + p for n, c, p in zip(number, cell, pixel, strict=True))
        for number in itertools.product(*steps)
        for pixel in order(cell)
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Reach:
    """Along one axis: which input pixel each output pixel of a cell reads at each position of the small kernel.

    Attributes:
        pixel: (output pixels per cell, kernel width), counted from the first pixel of the input cell at the same place;
            `NOTHING` where none is read.
        stride: input cells per output cell.
    """

    pixel: np.ndarray
    stride: int = 1


def convolution(kernel: int, out: int, offset: int = 0) -> Reach:
    """A convolution with padding `same`; the output's cells begin `offset` pixels later than the input's."""
    u, j = np.ogrid[:out, :kernel]
    return Reach(u + j - (kernel - 1) // 2 + offset)


def strided(kernel: int, block: int) -> Reach:
    """A convolution with stride 2 and padding `same`, of an even side: (kernel - 2) // 2 zeros come first, as Keras pads it."""
    out = max(1, block // 2)
    u, j = np.ogrid[:out, :kernel]
    return Reach(2 * u + j - max(kernel - 2, 0) // 2, stride=2 * out // block)


def nearest(kernel: int, block: int) -> Reach:
    """Each pixel doubled, then a convolution with padding `same`; blocks double as well, the grid stays."""
    u, j = np.ogrid[: 2 * block, :kernel]
    return Reach((u + j - (kernel - 1) // 2) // 2)


def transposed(kernel: int, block: int) -> Reach:
    """A transposed convolution with stride 2 and padding `same`; blocks double as well, the grid stays.

    Input pixel e writes output pixel 2 e + j - (kernel - 2) // 2, so an output pixel reads where that divides.
    """
    u, j = np.ogrid[: 2 * block, :kernel]
    double = u - j + max(kernel - 2, 0) // 2
    return Reach(np.where(double % 2 == 0, double // 2, NOTHING))


@dataclasses.dataclass(frozen=True, eq=False)
class Selection:
    """S of the formula above, for all axes together.

    Attributes:
        chosen: (taps, pixels of an input block, pixels of an output block, positions of the small kernel), 0 or 1.
        taps: per axis.
        first: per axis, the cell of the first tap, counted from the cell at the same place.
        stride: per axis.
    """

    chosen: np.ndarray
    taps: tuple[int, ...]
    first: tuple[int, ...]
    stride: tuple[int, ...]

    def padding(self, cells: Sequence[int], out_cells: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Cells of zeros before and after each axis (negative: cells to cut off), for a convolution with padding `valid`."""
        return tuple(
            (-first, (out - 1) * stride + first + taps - have)
            for have, out, first, taps, stride in zip(cells, out_cells, self.first, self.taps, self.stride, strict=True)
        )


def tap_range(reach: Reach, block: int) -> tuple[int, int]:
    """The first tap, and how many."""
    cells = reach.pixel[reach.pixel != NOTHING] // block
    return int(cells.min()), int(np.ptp(cells)) + 1


def selection(reaches: Sequence[Reach], block: tuple[int, ...], out_order: Sequence[tuple[int, ...]] = ()) -> Selection:
    """Combines the axes: an output pixel reads an input pixel if it does so along every axis.

    Args:
        reaches: one per axis.
        block: of the input.
        out_order: the output's pixels in the order of their lanes (default: that of `order`).
    """
    inputs, outputs = np.array(order(block)), np.array(out_order or order(tuple(len(reach.pixel) for reach in reaches)))
    ranges = [tap_range(reach, r) for reach, r in zip(reaches, block, strict=True)]
    chosen = np.ones((1, len(inputs), len(outputs), 1), np.float32)
    for axis, (reach, r, (first, taps)) in enumerate(zip(reaches, block, ranges, strict=True)):
        t = np.arange(first, first + taps)[:, None, None, None]
        m = inputs[None, :, None, None, axis]
        found = r * t + m == reach.pixel[outputs[:, axis]][None, None]  # taps, m, u, j
        kernel = found.shape[-1]
        chosen = np.einsum("tmuj,smuk->tsmujk", chosen, found).reshape(-1, len(inputs), len(outputs), chosen.shape[-1] * kernel)
    first, taps = zip(*ranges, strict=True)
    return Selection(chosen, taps, first, tuple(reach.stride for reach in reaches))


def expand(kernel, chosen: Selection, parts: Sequence[int]):
    """The packed kernel.

    Args:
        kernel: (positions per axis ..., i, o), the small weights.
        chosen: as `selection` made it.
        parts: channels of each joined input map, i in all; their lanes lie apart.

    Returns:
        (taps per axis ..., input lanes, output lanes)
    """
    positions, pixels = chosen.chosen.shape[-1], chosen.chosen.shape[1:3]
    weights = ops.reshape(kernel, (positions, *kernel.shape[-2:]))
    picked = ops.convert_to_tensor(np.moveaxis(chosen.chosen, -1, 0)[:, :, :, None, :, None], dtype=weights.dtype)  # j t m . u .
    packed, start = [], 0
    for channels in parts:
        part = weights[:, None, None, start : start + channels, None, :]  # j . . i . o
        # A sum of products, not a matrix product, which a TPU would round to bfloat16 on the way back to the weights.
        whole = ops.sum(picked * part, axis=0)  # t m i u o
        packed.append(ops.reshape(whole, (*chosen.taps, pixels[0] * channels, pixels[1] * weights.shape[-1])))
        start += channels
    return packed[0] if len(packed) == 1 else ops.concatenate(packed, axis=-2)


def best_shift(block: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
    """The shift of the first of two convolutions that saves taps, per axis: half the kernel, or 0 where nothing is saved."""

    def taps(r: int, k: int, shift: int) -> int:
        return tap_range(convolution(k, r, shift), r)[1]

    return tuple(k // 2 if k // 2 < r and taps(r, k, k // 2) < taps(r, k, 0) else 0 for r, k in zip(block, kernel, strict=True))


def inside(layout: Layout, grid: Sequence[int]) -> list[np.ndarray]:
    """Per axis: whether a pixel of a shifted grid lies in the image, (cells, pixels of the block in lane order)."""
    places, image = np.array(order(layout.block)), layout.image(grid)
    found = []
    for axis, cells in enumerate(grid):
        pixel = layout.origin[axis] + layout.block[axis] * np.arange(cells)[:, None] + places[None, :, axis]
        found.append((pixel >= 0) & (pixel < image[axis]))
    return found
