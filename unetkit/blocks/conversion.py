"""Layers between images and packed maps."""

import dataclasses

import keras
import numpy as np

from unetkit.blocks import packed, packing
from unetkit.blocks.base import TracedLayer
from unetkit.blocks.packed import Packed
from unetkit.blocks.packing import Layout


@keras.saving.register_keras_serializable("unetkit")
class Pack(TracedLayer):
    """From an image to a packed map: (b, h, w, c) -> (b, h/r, w/c, r c C). See `unetkit.blocks.packing`.

    Args:
        block: pixels per axis of one cell, each dividing the image.
    """

    def __init__(self, block: tuple[int, ...], **kwargs):
        super().__init__(**kwargs)
        self.block = tuple(block)

    def call(self, x):
        return packed.pack(x, self.block).array

    def on_host(self, images: np.ndarray) -> np.ndarray:
        """`call` in NumPy: on a TPU, moving pixels between lanes takes many times what a convolution of them does."""
        shape, axes, grid = packing.digits(images.shape[1:-1], self.block)
        apart = np.reshape(images, (len(images), *shape, images.shape[-1]))
        return np.reshape(np.transpose(apart, (0, *axes, apart.ndim - 1)), (len(images), *grid, -1))

    def get_config(self):
        return super().get_config() | {"block": self.block}


@keras.saving.register_keras_serializable("unetkit")
class Unpack(TracedLayer):
    """From a packed map to its image, the inverse of `Pack`.

    Args:
        layout: how the map is packed.
    """

    def __init__(self, layout: Layout | dict, **kwargs):
        super().__init__(**kwargs)
        self.layout = Layout.read(layout)

    def call(self, x):
        return packed.unpack(Packed(x, self.layout))

    def get_config(self):
        return super().get_config() | {"layout": dataclasses.asdict(self.layout)}
