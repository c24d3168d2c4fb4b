"""The norms of `norm.py` on packed maps, with the statistics that they have on the image."""

from __future__ import annotations

import math

import keras
from keras import ops

from unetkit.blocks import packed
from unetkit.blocks.norm import GroupNorm
from unetkit.blocks.packed import Packed


def normalize(layer: keras.layers.Layer, x: Packed, training: bool | None) -> Packed:
    """A layer of `unetkit.blocks.norm.make_norm` on a map of one part, with the statistics that it has on the image."""
    if isinstance(layer, keras.layers.Identity):
        return x
    with keras.name_scope(layer.name):
        if isinstance(layer, keras.layers.LayerNormalization):
            return packed.from_pixels(layer(packed.by_pixel(x)), x.layout)
        if isinstance(layer, GroupNorm):
            return _normalize_groups(layer, x)
        if isinstance(layer, keras.layers.BatchNormalization):
            return _normalize_batch(layer, x, training)
        return packed.pack(layer(packed.unpack(x)), x.layout.block, x.layout.shift)


def _normalize_groups(layer: GroupNorm, x: Packed) -> Packed:
    wide = Packed(ops.cast(x.array, "float32"), x.layout)
    mean = layer.over_groups(pixel_mean(wide))
    centred = Packed(wide.array - _along_cells(mean, x), x.layout)
    variance = layer.over_groups(pixel_mean(Packed(ops.square(centred.array), x.layout)))
    scale, shift = ops.rsqrt(variance + layer.epsilon) * layer.gamma, layer.beta
    y = centred.array * _along_cells(scale, x) + packed.over_lanes(shift, x.layout)
    return Packed(ops.cast(y, layer.compute_dtype), x.layout)


def _normalize_batch(layer: keras.layers.BatchNormalization, x: Packed, training: bool | None) -> Packed:
    wide = Packed(ops.cast(x.array, "float32"), x.layout)
    mean, variance = (ops.cast(v, "float32") for v in (layer.moving_mean, layer.moving_variance))
    if training and layer.trainable:
        moving = mean, variance
        mean = _batch_mean(layer, pixel_mean(wide))
        centred = Packed(wide.array - packed.over_lanes(mean, x.layout), x.layout)
        variance = _batch_mean(layer, pixel_mean(Packed(ops.square(centred.array), x.layout)))
        for kept, old, new in zip((layer.moving_mean, layer.moving_variance), moving, (mean, variance), strict=True):
            kept.assign(old * layer.momentum + new * (1.0 - layer.momentum))
    scale = ops.rsqrt(variance + layer.epsilon) * ops.cast(layer.gamma, "float32")
    shift = ops.cast(layer.beta, "float32")
    y = (wide.array - packed.over_lanes(mean, x.layout)) * packed.over_lanes(scale, x.layout) + packed.over_lanes(shift, x.layout)
    return Packed(ops.cast(y, layer.compute_dtype), x.layout)


def _batch_mean(layer: keras.layers.BatchNormalization, values):
    """The mean over the batch, (b, C) -> (C,): over that of all replicas where the layer is synchronized, as Keras' own has it."""
    return ops.moments(values, axes=[0], synchronized=True)[0] if layer.synchronized else ops.mean(values, axis=0)


def pixel_mean(x: Packed):
    """The mean over each sample's pixels, (b, C), of a map of one part. Shifted cells count only inside of the image."""
    mean = ops.mean(packed.masked(x).array, axis=tuple(range(1, len(x.grid) + 1)))  # b lanes
    mean = ops.mean(ops.reshape(mean, (-1, x.layout.pixels, x.layout.channels)), axis=1)  # b C
    cells, filled = math.prod(x.grid), math.prod(x.image) / x.layout.pixels
    return mean * (cells / filled) if cells != filled else mean


def _along_cells(values, x: Packed):
    """(b, C) -> (b, 1 per axis ..., lanes)"""
    return ops.reshape(packed.over_lanes(values, x.layout), (-1, *(1,) * len(x.grid), x.layout.lanes))
