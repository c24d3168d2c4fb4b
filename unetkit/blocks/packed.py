"""What layers do with packed maps: the same numbers as `keras.layers` give on the image, from the same weights.

`packing.py` says where each pixel lies. Every function here takes the layer whose weights it uses, or none, and a `Packed`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from unetkit.blocks import packing
from unetkit.blocks.packed_map import LANES, Packed, by_pixel, from_pixels, halved, reblock, split_cells
from unetkit.blocks.packed_map import join as join
from unetkit.blocks.packed_map import pack as pack
from unetkit.blocks.packed_map import unpack as unpack
from unetkit.blocks.packing import Layout, Reach

CHANNELWISE = frozenset({"glu", "log_softmax", "softmax", "sparsemax"})
"""Activations that look at all channels of a pixel; every other one takes each number alone."""


Finish = Callable[[Packed], Packed]
"""What is done to a map number by number, or pixel by pixel."""


# --- convolutions ---------------------------------------------------------------------------------------------------


def masked(x: Packed) -> Packed:
    """Zeros outside of the image; only shifted cells reach there."""
    inside = inside_image(x)
    if inside is None or x.zeroed:
        return x
    return Packed(ops.where(inside, x.array, ops.zeros((), x.array.dtype)), x.layout, zeroed=True)


def inside_image(x: Packed):
    """For every lane of every cell whether its pixel lies in the image; None where all do."""
    whole, rank = None, len(x.grid)
    if not any(x.layout.shift):
        return whole
    for axis, found in enumerate(packing.inside(x.layout, x.grid)):
        if not found.all():
            lanes = np.concatenate([np.repeat(found, channels, axis=1) for channels in x.layout.parts], axis=1)
            along = ops.convert_to_tensor(np.reshape(lanes, (*(len(lanes) if a == axis else 1 for a in range(rank)), -1))[None])
            whole = along if whole is None else ops.logical_and(whole, along)
    return whole


def apply_kernel(
    layer: keras.layers.Layer,
    kernel,
    x: Packed,
    reaches: Sequence[Reach],
    out: Layout,
    image: Sequence[int],
    order: Sequence[tuple[int, ...]] = (),
) -> Packed:
    """Convolves the cells of x with the packed form of a small kernel, and adds the layer's bias.

    Args:
        layer: has `use_bias` and `bias`.
        kernel: (positions per axis ..., i, o).
        x: zero outside of the image.
        reaches: one per axis.
        out: layout of the result.
        image: size of the result's image.
        order: of the pixels in the result's lanes, if not that of `packing.order`.
    """
    with keras.name_scope(layer.name):
        chosen = packing.selection(reaches, x.layout.block, order)
        cells = cut_or_pad(x.array, chosen.padding(x.grid, out.grid(image)))
        packed_kernel = packing.expand(kernel, chosen, x.layout.parts)
        if chosen.stride == (1,) * len(out.block) and math.prod(chosen.taps) * x.layout.lanes <= LANES:
            cells, packed_kernel = taps_in_lanes(cells, packed_kernel)
        y = ops.conv(cells, packed_kernel, strides=chosen.stride, padding="valid")
        return Packed(ops.add(y, over_lanes(layer.bias, out)) if layer.use_bias else y, out)


def taps_in_lanes(cells, kernel):
    """The same convolution with one tap: all cells that it reads lie side by side in the lanes. For few lanes, as of an image."""
    *taps, lanes, out = kernel.shape
    sides = [side - t + 1 for side, t in zip(cells.shape[1:-1], taps, strict=True)]
    starts = itertools.product(*map(range, taps))
    read = [cells[(slice(None), *(slice(s, s + side) for s, side in zip(start, sides, strict=True)))] for start in starts]
    return ops.concatenate(read, axis=-1), ops.reshape(kernel, (*(1,) * len(taps), math.prod(taps) * lanes, out))


def cut_or_pad(x, padding: Sequence[tuple[int, int]]):
    """Zeros before and after each axis between batch and lanes, or less of it where a number is negative."""
    cut = tuple(slice(max(0, -before), side - max(0, -after)) for (before, after), side in zip(padding, x.shape[1:-1], strict=True))
    if any(part != slice(0, side) for part, side in zip(cut, x.shape[1:-1], strict=True)):
        x = x[(slice(None), *cut)]
    grown = [(max(0, before), max(0, after)) for before, after in padding]
    return ops.pad(x, [(0, 0), *grown, (0, 0)]) if any(map(any, grown)) else x


def over_lanes(values, layout: Layout):
    """Values per channel, for every lane of a map of one part: (..., C) -> (..., n C)."""
    return ops.concatenate([values] * layout.pixels, axis=-1) if layout.pixels > 1 else ops.convert_to_tensor(values)


def convolve(layer: keras.layers.Layer, x: Packed, shift: Sequence[int] = ()) -> Packed:
    """A convolution layer with stride 1 and padding `same`.

    Args:
        layer: any size of kernel.
        x: packed map.
        shift: how many pixels later than the image the result's cells begin (default: 0).
    """
    x = masked(x)
    out = Layout(x.layout.block, (layer.filters,), tuple(shift))
    offsets = (o - i for o, i in zip(out.origin, x.layout.origin, strict=True))
    axes = zip(layer.kernel_size, out.block, offsets, strict=True)
    return apply_kernel(layer, layer.kernel, x, [packing.convolution(k, r, offset) for k, r, offset in axes], out, x.image)


def strided_convolve(layer: keras.layers.Layer, x: Packed) -> Packed:
    """A convolution layer with stride 2 and padding `same`; blocks halve where they can, else the grid does."""
    reaches = [packing.strided(k, r) for k, r in zip(layer.kernel_size, x.layout.block, strict=True)]
    out = Layout(halved(x.layout.block), (layer.filters,))
    return apply_kernel(layer, layer.kernel, x, reaches, out, [side // 2 for side in x.image])


def nearest_convolve(layer: keras.layers.Layer, x: Packed, block: tuple[int, ...], finish: Finish) -> Packed:
    """Each pixel doubled, a convolution layer with padding `same`, then `finish`; the result is packed in `block`."""
    return _grown(layer, layer.kernel, x, block, finish, packing.nearest)


def transposed_convolve(layer: keras.layers.Layer, x: Packed, block: tuple[int, ...], finish: Finish) -> Packed:
    """A transposed convolution layer with stride 2 and padding `same`, then `finish`; the result is packed in `block`."""
    return _grown(layer, ops.swapaxes(ops.convert_to_tensor(layer.kernel), -1, -2), x, block, finish, packing.transposed)


def _grown(
    layer: keras.layers.Layer, kernel, x: Packed, block: tuple[int, ...], finish: Finish, reach: Callable[[int, int], Reach]
) -> Packed:
    """On the grid of x, each cell grows to a block of twice the pixels per axis; that is split where smaller ones are wanted."""
    reaches = [reach(k, r) for k, r in zip(layer.kernel_size, x.layout.block, strict=True)]
    out = Layout(tuple(2 * r for r in x.layout.block), (layer.filters,))
    image = [2 * side for side in x.image]
    if out.block == block or any(r % w for r, w in zip(out.block, block, strict=True)):
        return reblock(finish(apply_kernel(layer, kernel, x, reaches, out, image)), block)
    order = packing.order_of_cells(out.block, block)
    # What is left to do to each number is done before cells are moved, in one pass with the convolution.
    return split_cells(finish(apply_kernel(layer, kernel, x, reaches, out, image, order)), block, order)


# --- pixel by pixel -------------------------------------------------------------------------------------------------


def activate(function: Callable, name: str, x: Packed) -> Packed:
    """An activation function of this name."""
    if name in CHANNELWISE:
        return from_pixels(function(by_pixel(x)), x.layout)
    slope = 0.0 if name == "relu" else function.keywords["negative_slope"] if name == "leaky_relu" else None
    # Of what it does at zero, the output tells only where it differs from what it does below.
    at_zero = name == "leaky_relu" and keras.backend.backend() == "jax"
    if slope is None or (at_zero and slope == 0) or isinstance(x.array, keras.KerasTensor):
        return Packed(function(x.array), x.layout)
    return Packed(by_sign(x.array, function, slope, at_zero, inside_image(x)), x.layout, zeroed=True)


def by_sign(array, function: Callable, slope: float, at_zero: bool, inside):
    """A (leaky) ReLU whose gradient is told by its output, so that its input need not be kept; zero outside of the image.

    Args:
        array: the input.
        function: the activation.
        slope: below zero.
        at_zero: whether the slope at zero is 1, as on JAX, or that below, as in TensorFlow.
        inside: as `inside_image` gives it.
    """

    def zeroed(values):
        return values if inside is None else ops.where(inside, values, ops.zeros((), values.dtype))

    @ops.custom_gradient
    def activated(x):
        y = zeroed(function(x))

        def gradient(*args, upstream=None):
            (upstream,) = args or (upstream,)
            return zeroed(ops.where(y >= 0 if at_zero else y > 0, upstream, ops.cast(slope, upstream.dtype) * upstream))

        return y, gradient

    return activated(array)


def drop(layer: keras.layers.Dropout, x: Packed, training: bool | None) -> Packed:
    """Dropout of the same numbers as on the image: the draw is made in the image's order, then packed."""
    if not training or layer.rate == 0:
        return x
    kept = layer(ops.ones((ops.shape(x.array)[0], *x.image, x.layout.channels), x.array.dtype), training=training)
    return dataclasses.replace(x, array=x.array * pack(kept, x.layout.block, x.layout.shift).array)


def add(x: Packed, y: Packed) -> Packed:
    """The sum of two maps of one block; the result's channels are one part."""
    if x.layout.parts != y.layout.parts:
        x, y = (from_pixels(by_pixel(z), z.layout) if len(z.layout.parts) > 1 else z for z in (x, y))
    return Packed(x.array + y.array, x.layout)
