"""2x2 max-pooling of packed maps, where the pixels to compare lie in one cell's lanes or in cells side by side."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

from keras import ops

from unetkit.blocks.packed_map import Packed, halved, join, merge_by_kernel, reblock, unjoined


def max_pool(x: Packed, block: Sequence[int]) -> Packed:
    """2x2 max-pool; the result is packed in `block`.

    Among equal pixels the gradient goes to the first, row by row, as in the max-pool of the image. NaN stays NaN.
    """
    return reblock(join(*(_pool(part, tuple(block)) for part in unjoined(x))), block)


def halves(block: Sequence[int]) -> bool:
    """Whether a 2x2 window of pixels lies in one cell, or in cells side by side, along every axis."""
    return all(r == 1 or r % 2 == 0 for r in block)


def _pool(x: Packed, block: tuple[int, ...]) -> Packed:
    pooled = halved(x.layout.block)
    if pooled != block and all(r % 2 == 0 and b % p == 0 for r, b, p in zip(x.layout.block, block, pooled, strict=True)):
        # Cells that are to become one do so before: half as many then hold twice the lanes, which a TPU would leave empty.
        x, pooled = merge_by_kernel(x, tuple(2 * b for b in block)), block
    return Packed(pool_lanes(x.array, x.layout.block), dataclasses.replace(x.layout, block=pooled))


def pool_lanes(array, block: Sequence[int]):
    """The largest of the pixels of each 2x2 window: slices of the lanes, or of the grid where the block is one pixel wide."""
    lanes = array.shape[-1] // math.prod(2 for r in block if r > 1)
    window = []
    for pixel in itertools.product((0, 1), repeat=len(block)):  # in the order of rows
        phase = functools.reduce(lambda number, digit: 2 * number + digit, (p for p, r in zip(pixel, block, strict=True) if r > 1), 0)
        cells = (slice(None) if r > 1 else slice(p, None, 2) for p, r in zip(pixel, block, strict=True))
        window.append(array[(slice(None), *cells, slice(phase * lanes, (phase + 1) * lanes))])
    return functools.reduce(larger, window)


def larger(first, second):
    """The larger of two arrays; the first, and all of the gradient to it, where they are equal; NaN where there is one."""
    return ops.where(ops.logical_or(first >= second, first != first), first, second)
