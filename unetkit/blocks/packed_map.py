"""Packed maps: between images and them, joined ones, and from one block to another. No layer's weights are used here.

`packing.py` says where each pixel lies.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from unetkit.blocks import packing
from unetkit.blocks.packing import Layout

LANES = 128
"""Of a TPU's registers."""


@dataclasses.dataclass(frozen=True)
class Packed:
    """A packed map: `array` is (b, cells per axis ..., lanes); `zeroed` says that it is zero outside of the image."""

    array: object
    layout: Layout
    zeroed: bool = False

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(self.array.shape[1:-1])

    @property
    def image(self) -> tuple[int, ...]:
        """Size of the image, in pixels."""
        return self.layout.image(self.grid)


def pack(x, block: Sequence[int], shift: Sequence[int] = ()) -> Packed:
    """(b, h, w, c) -> (b, h/r, w/c, r c C), with zeros outside of the image where the cells are shifted."""
    layout = Layout(tuple(block), (x.shape[-1],), tuple(shift))
    if any(layout.shift):
        sides = [(-o, s) for o, s in zip(layout.origin, layout.shift, strict=True)]
        x = ops.pad(x, [(0, 0), *sides, (0, 0)])
    shape, axes, grid = packing.digits(x.shape[1:-1], layout.block)
    x = ops.transpose(ops.reshape(x, (-1, *shape, layout.channels)), (0, *axes, len(shape) + 1))
    return Packed(ops.reshape(x, (-1, *grid, layout.lanes)), layout)


def unpack(x: Packed):
    """(b, h/r, w/c, r c C) -> (b, h, w, C), the joined maps' channels in order."""
    layout, rank = x.layout, len(x.grid)
    split = packing.factors(layout.block)
    order = [0]
    for axis in range(rank):
        order += [1 + axis, *(1 + rank + level * rank + axis for level in reversed(range(len(split))))]
    maps = []
    for part in unjoined(x):
        digits = [phases[axis] for phases in split for axis in range(rank)]
        y = ops.reshape(part.array, (-1, *x.grid, *digits, part.layout.channels))
        y = ops.transpose(y, (*order, y.ndim - 1))
        maps.append(ops.reshape(y, (-1, *(g * r for g, r in zip(x.grid, layout.block, strict=True)), part.layout.channels)))
    y = maps[0] if len(maps) == 1 else ops.concatenate(maps, axis=-1)
    if not any(layout.shift):
        return y
    cut = (slice(-o, -o + side) for o, side in zip(layout.origin, x.image, strict=True))
    return y[(slice(None), *cut)]


def unjoined(x: Packed) -> list[Packed]:
    """The maps that were joined."""
    if len(x.layout.parts) == 1:
        return [x]
    maps, start = [], 0
    for channels in x.layout.parts:
        lanes = channels * x.layout.pixels
        maps.append(Packed(x.array[..., start : start + lanes], dataclasses.replace(x.layout, parts=(channels,))))
        start += lanes
    return maps


def join(*maps: Packed) -> Packed:
    """The channels of several maps, one after another: their lanes are not interleaved, kernels are ordered instead."""
    if len(maps) == 1:
        return maps[0]
    parts = tuple(channels for x in maps for channels in x.layout.parts)
    return Packed(ops.concatenate([x.array for x in maps], axis=-1), dataclasses.replace(maps[0].layout, parts=parts))


def by_pixel(x: Packed):
    """(b, cells ..., pixels of a block, C) of a map whose channels may have been joined."""
    maps = [ops.reshape(part.array, (-1, *x.grid, x.layout.pixels, part.layout.channels)) for part in unjoined(x)]
    return maps[0] if len(maps) == 1 else ops.concatenate(maps, axis=-1)


def from_pixels(x, like: Layout) -> Packed:
    """The inverse of `by_pixel`; the result's channels are one part."""
    layout = dataclasses.replace(like, parts=(x.shape[-1],))
    return Packed(ops.reshape(x, (-1, *x.shape[1:-2], layout.lanes)), layout)


def reblock(x: Packed, block: Sequence[int]) -> Packed:
    """The same map in another block; what was joined stays apart."""
    have, want = x.layout.block, tuple(block)
    if have == want:
        return x
    if all(w % h == 0 for w, h in zip(want, have, strict=True)):
        return merge_cells(x, want)
    if all(h % w == 0 for w, h in zip(want, have, strict=True)):
        return join(*(split_cells(part, want, packing.order(have)) for part in unjoined(x)))
    return join(*(pack(unpack(part), want) for part in unjoined(x)))


def merge_cells(x: Packed, block: tuple[int, ...]) -> Packed:
    """Makes one cell of several neighbours: the lanes of each go where the larger block has their pixels."""
    have, rank = x.layout.block, len(block)
    steps = tuple(w // h for w, h in zip(block, have, strict=True))
    shape = [size for cells, step in zip(x.grid, steps, strict=True) for size in (cells // step, step)]
    apart = ops.reshape(x.array, (-1, *shape, x.layout.lanes))  # b, then per axis: larger cell, cell in it
    number = {pixel: place for place, pixel in enumerate(packing.order(have))}
    pieces: list[list] = []  # the cell among its neighbours, first lane, lane after the last
    start = 0
    for channels in x.layout.parts:
        for pixel in packing.order(block):
            cell = tuple(p // h for p, h in zip(pixel, have, strict=True))
            lane = start + channels * number[tuple(p % h for p, h in zip(pixel, have, strict=True))]
            if pieces and pieces[-1][::2] == [cell, lane]:
                pieces[-1][2] += channels
            else:
                pieces.append([cell, lane, lane + channels])
        start += channels * x.layout.pixels
    places = [[index for axis in range(rank) for index in (slice(None), cell[axis])] for cell, _, _ in pieces]
    lanes = [apart[(slice(None), *place, slice(first, last))] for place, (_, first, last) in zip(places, pieces, strict=True)]
    return Packed(ops.concatenate(lanes, axis=-1), dataclasses.replace(x.layout, block=block))


def merge_by_kernel(x: Packed, block: tuple[int, ...]) -> Packed:
    """`merge_cells` as a convolution with a kernel of zeros and ones; x is of one part.

    For pixels that change lanes: a TPU's matrix unit moves them in less time than its vector unit, which does so through
    memory. There it rounds float32 as it does the operands of every other convolution.
    """
    have, wanted = x.layout.block, packing.order(block)
    steps = tuple(w // h for w, h in zip(block, have, strict=True))
    number = {pixel: place for place, pixel in enumerate(packing.order(have))}
    places = np.zeros((*steps, x.layout.pixels, len(wanted)), np.float32)
    for out, pixel in enumerate(wanted):
        cell = tuple(p // h for p, h in zip(pixel, have, strict=True))
        places[(*cell, number[tuple(p % h for p, h in zip(pixel, have, strict=True))], out)] = 1.0
    kernel = np.kron(places, np.eye(x.layout.channels))

    def merge(array):
        return ops.conv(array, ops.convert_to_tensor(kernel, dtype=array.dtype), strides=steps, padding="valid")

    @ops.custom_gradient
    def merged(array):
        y = merge(array)

        def gradient(*args, upstream=None):
            (upstream,) = args or (upstream,)
            one = (np.newaxis,) * len(steps)
            back = {cell: ops.convert_to_tensor(kernel[cell].T[one], dtype=upstream.dtype) for cell in np.ndindex(*steps)}
            return interleave({cell: ops.conv(upstream, one_cell, padding="valid") for cell, one_cell in back.items()}, steps)

        return y, gradient

    known = merge if isinstance(x.array, keras.KerasTensor) else merged  # Keras traces shapes through no gradient of one's own
    return Packed(known(x.array), dataclasses.replace(x.layout, block=block))


def split_cells(x: Packed, block: tuple[int, ...], order: Sequence[tuple[int, ...]]) -> Packed:
    """Makes several cells of one: `order` says which pixel each run of the lanes of x holds; x is of one part."""
    steps, rank = tuple(h // w for w, h in zip(block, x.layout.block, strict=True)), len(block)
    lanes, layout = math.prod(block) * x.layout.channels, dataclasses.replace(x.layout, block=block)
    wanted = packing.order_of_cells(x.layout.block, block)
    y = x.array
    if tuple(order) != wanted:
        y = ops.reshape(y, (-1, *x.grid, x.layout.pixels, x.layout.channels))
        y = ops.take(y, [order.index(pixel) for pixel in wanted], axis=-2)
        y = ops.reshape(y, (-1, *x.grid, x.layout.lanes))
    if lanes % LANES == 0:  # whole registers: nothing changes lanes
        numbered = enumerate(itertools.product(*map(range, steps)))
        return Packed(interleave({cell: y[..., n * lanes : (n + 1) * lanes] for n, cell in numbered}, steps), layout)
    y = ops.reshape(y, (-1, *x.grid, *steps, lanes))
    axes = [axis for a in range(rank) for axis in (1 + a, 1 + rank + a)]
    y = ops.transpose(y, (0, *axes, 1 + 2 * rank))
    grid = [cells * step for cells, step in zip(x.grid, steps, strict=True)]
    return Packed(ops.reshape(y, (-1, *grid, lanes)), layout)


def interleave(cells: dict[tuple[int, ...], Any], steps: Sequence[int]):
    """The grid whose cell s n + k (per axis, of s steps) is cell n of the map at k; all maps are (b, cells ..., lanes).

    By choosing, not by stacking: of that a TPU's compiler makes one pass over memory, of stacking three.
    """
    for axis in reversed(range(len(steps))):
        cells = {at: _alternate([cells[(*at, k)] for k in range(steps[axis])], 1 + axis) for at in sorted({n[:axis] for n in cells})}
    return cells[()]


def _alternate(maps: Sequence[Any], axis: int):
    if len(maps) == 1:
        return maps[0]
    number = np.arange(len(maps)).reshape(-1, *(1,) * (maps[0].ndim - axis - 1))
    whole = ops.expand_dims(maps[0], axis + 1)
    for n, other in enumerate(maps[1:], 1):
        whole = ops.where(number == n, ops.expand_dims(other, axis + 1), whole)
    shape = list(maps[0].shape)
    return ops.reshape(whole, (-1, *shape[1:axis], shape[axis] * len(maps), *shape[axis + 1 :]))


def halved(block: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(1, r // 2) for r in block)
