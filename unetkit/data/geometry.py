"""Pictures of any size -> arrays of one static size. Both members of a pair go through the same `Fit`."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image

RESAMPLE = Image.Resampling.BICUBIC  # with antialiasing when it makes smaller, as Pillow does it


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How a picture becomes (height, width): stretched; filling it, the centre cut out; or inside it, the rest padded."""

    height: int
    width: int
    policy: Literal["stretch", "crop", "pad"]
    background: tuple[int, int, int]

    def larger(self, share: float) -> Fit:
        """The same with both sides `share` larger, rounded: what a random window is cut from."""
        return dataclasses.replace(self, height=round(self.height * (1 + share)), width=round(self.width * (1 + share)))

    def detail(self, width: int, height: int) -> float:
        """Source pixels per kept pixel, along the side that keeps more."""
        rows, columns = height / self.height, width / self.width
        return max(rows, columns) if self.policy == "pad" else min(rows, columns)

    def array(self, planes: list[Image.Image]) -> np.ndarray:
        """`Picture.planes` -> (height, width, channels): uint8, or float32 in 0..255 for planes of mode F."""
        width, height = planes[0].size
        if self.policy == "pad":
            scale = 1 / self.detail(width, height)
            inside = (_side(width * scale, self.width), _side(height * scale, self.height))
            return self._padded(_array(_resized(planes, inside, (0, 0, width, height))))
        box = (0.0, 0.0, float(width), float(height))
        if self.policy == "crop":
            step = self.detail(width, height)
            across, down = min(width, self.width * step), min(height, self.height * step)
            left, top = (width - across) / 2, (height - down) / 2
            box = (left, top, left + across, top + down)
        return _array(_resized(planes, (self.width, self.height), box))

    def _padded(self, inside: np.ndarray) -> np.ndarray:
        height, width, channels = inside.shape
        if (height, width) == (self.height, self.width):
            return inside
        whole = np.empty((self.height, self.width, channels), inside.dtype)
        whole[:] = ground(self.background, channels)
        top, left = (self.height - height) // 2, (self.width - width) // 2
        whole[top : top + height, left : left + width] = inside
        return whole


@functools.cache
def ground(background: tuple[int, int, int], channels: int) -> tuple[int, ...]:
    """The background colour with 1, 3 or 4 channels, 8 bits each; opaque."""
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    return tuple(np.asarray(Image.new("RGB", (1, 1), background).convert(mode)).reshape(-1).tolist())


def _side(length: float, most: int) -> int:
    return min(most, max(1, math.floor(length + 0.5)))


def _resized(planes: list[Image.Image], size: tuple[int, int], box: tuple[float, float, float, float]) -> list[Image.Image]:
    """Planes resampled from `box` to `size` (width, height)."""
    if len(planes) < 4:
        return [plane.resize(size, RESAMPLE, box) for plane in planes]
    # Colour under transparent pixels must not bleed into its neighbours: Pillow sees to that with mode RGBA only.
    alpha = np.asarray(planes[3])
    weighted = [Image.fromarray(np.asarray(plane) * alpha) for plane in planes[:3]]
    *colour, alpha = (np.asarray(plane.resize(size, RESAMPLE, box)) for plane in (*weighted, planes[3]))
    safe = np.where(alpha > 0, alpha, 1)
    return [Image.fromarray(np.where(alpha > 0, plane / safe, 0).astype(np.float32)) for plane in colour] + [Image.fromarray(alpha)]


def _array(planes: list[Image.Image]) -> np.ndarray:
    if planes[0].mode == "F":
        return np.stack([np.asarray(plane) for plane in planes], axis=-1).clip(0, 255)
    pixels = np.asarray(planes[0])
    return pixels if pixels.ndim == 3 else pixels[..., None]
