"""Where pairs come from: item number in, two arrays of one static size out."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from PIL import Image

from unetkit.data import builtin
from unetkit.data.decode import Picture, read_picture
from unetkit.data.geometry import Fit
from unetkit.data.items import Item
from unetkit.recipe import schema

Arrays = tuple[np.ndarray, np.ndarray]


class Source(Protocol):
    """`pair(i, fit)` reads item i: (h, w, ci) and (h, w, co) in 0..255, uint8 or (from 16-bit files) float32."""

    def pair(self, i: int, fit: Fit) -> Arrays: ...


class EmojiSource:
    """The built-in pairs, decoded once."""

    def __init__(self, data: schema.Data) -> None:
        channels = (data.input_channels, data.target_channels)
        drawings = (builtin.colours, builtin.outlines) if data.source.reverse else (builtin.outlines, builtin.colours)
        self.arrays = [make(count) for make, count in zip(drawings, channels, strict=True)]

    def pair(self, i: int, fit: Fit) -> Arrays:
        first, second = (array[i] for array in self.arrays)
        if (fit.height, fit.width) == first.shape[:2]:
            return first, second
        # Pillow knows grey only without a channel axis
        return tuple(fit.array([Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)]) for image in (first, second))


class SyntheticSource:
    """A few pairs of noise, drawn once and given again and again: what comes after reading and decoding, without those."""

    KEPT = 16

    def __init__(self, data: schema.Data) -> None:
        self.channels = (data.input_channels, data.target_channels)
        self._pairs: dict[tuple[int, int, int], Arrays] = {}

    def pair(self, i: int, fit: Fit) -> Arrays:
        which = (i % self.KEPT, fit.height, fit.width)
        if which not in self._pairs:
            random = np.random.default_rng(which)
            self._pairs[which] = tuple(random.integers(0, 256, (fit.height, fit.width, count), np.uint8) for count in self.channels)
        return self._pairs[which]


class FileSource:
    """Pairs read from files each time they are asked for."""

    def __init__(self, data: schema.Data, items: tuple[Item, ...]) -> None:
        self.items, self.source, self.background = items, data.source, data.background
        self.channels = (data.input_channels, data.target_channels)

    def pair(self, i: int, fit: Fit) -> Arrays:
        files = self.items[i].files
        if isinstance(self.source, schema.SideBySide):
            return self._halves(read_picture(files[0]), fit)
        pictures = [read_picture(path, fit.detail) for path in files]
        first = fit.array(pictures[0].planes(self.channels[0], self.background))
        if len(pictures) == 1 and self.channels[0] == self.channels[1]:
            return first, first
        return first, fit.array(pictures[-1].planes(self.channels[1], self.background))

    def _halves(self, picture: Picture, fit: Fit) -> Arrays:
        width, height = picture.header.width // 2, picture.header.height
        boxes = [(0, 0, width, height), (width, 0, 2 * width, height)]
        if self.source.input == "right":
            boxes.reverse()
        first, second = (
            # cut before resizing, so that neither half bleeds into the other
            fit.array([plane.crop(box) for plane in picture.planes(channels, self.background)])
            for box, channels in zip(boxes, self.channels, strict=True)
        )
        return first, second
