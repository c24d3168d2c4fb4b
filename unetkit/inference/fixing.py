"""A Keras model as a network of one shape: its tile, its receptive field, how many tiles at once, one compiled function."""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras

from unetkit import shapes
from unetkit.compiled import compiled
from unetkit.errors import UserError
from unetkit.inference.field import receptive
from unetkit.inference.fixed import Fixed
from unetkit.inference.tiling import per_axis

CPU_PIXELS, DEVICE_PIXELS = 2**14, 2**20
"""Pixels computed at once: a CPU gains nothing from more, an accelerator is idle with less."""


def fix(model: keras.Model, tile: int | Sequence[int] | None, batch: int | None) -> Fixed:
    """See `Tiled`, whose arguments these are."""
    sides = _tile(model, tile)
    found = receptive(model, sides)
    _check_grid(sides, found.stride)
    at_once = batch or rows_at_once(sides)
    return Fixed(compiled(model), at_once, sides, model.input_shape[-1], model.output_shape[-1], found)


def rows_at_once(sides: Sequence[int]) -> int:
    """How many images of these sides suit the device of this process."""
    return max(1, _pixels_at_once() // math.prod(sides))


def _pixels_at_once() -> int:
    """How many pixels the device of this process is given at once."""
    if keras.backend.backend() == "jax":
        import jax

        return CPU_PIXELS if jax.default_backend() == "cpu" else DEVICE_PIXELS
    import tensorflow as tf

    return DEVICE_PIXELS if tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU") else CPU_PIXELS


def _tile(model: keras.Model, asked: int | Sequence[int] | None) -> tuple[int, ...]:
    shape = model.input_shape
    if not isinstance(shape, tuple) or len(shape) not in (3, 4):
        raise UserError(f"{model.name} takes {shape}; tiles need one input, (b, h, w, c) or (b, w, c)")
    own = shape[1:-1]
    if asked is None:
        if None in own:
            raise UserError(f"tile: {model.name} takes any size, so it must be said; 256, for example")
        return own
    tile = per_axis("tile", asked, len(own))
    if min(tile) < 1:
        raise UserError(f"tile: {asked} is no size; 1 is the least")
    if any(has not in (None, wanted) for has, wanted in zip(own, tile, strict=True)):
        raise UserError(
            f"tile: {model.name} was built for {' x '.join(map(str, own))} and takes no other size, received "
            f"{' x '.join(map(str, tile))}. Build it for that size, or with None for its sides"
        )
    return tile


def _check_grid(tile: tuple[int, ...], stride: int) -> None:
    for side in tile:
        if side < 1 or side % stride:
            near = " and ".join(map(str, shapes.nearest_multiples(max(side, 1), stride)))
            raise UserError(f"tile: {side} is no multiple of {stride}, the network's total stride; the nearest: {near}")
