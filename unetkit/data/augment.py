"""Random changes of a pair, alike for both members: windows, mirroring, brightness and contrast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unetkit.data.order import AUGMENT, generator
from unetkit.recipe import schema


@dataclass(frozen=True, kw_only=True)
class Change:
    """One sample's change. Every draw is made whether used or not, so that an option alters only its own effect."""

    top: float = 0.5  # place of the window, as a share of the room it has
    left: float = 0.5
    vertical: bool = False
    horizontal: bool = False
    shift: float = 0.0  # added, in [-1, 1] units
    factor: float = 1.0  # multiplied, about mid-grey

    @classmethod
    def draw(cls, augment: schema.Augment, seed: int, k: int) -> Change:
        """The change of sample k."""
        if augment == schema.Augment():
            return cls()
        top, left, vertical, horizontal, shift, factor = generator(seed, AUGMENT, k).random(6).tolist()
        return cls(
            top=top,
            left=left,
            vertical=vertical < 0.5 and augment.flip in ("vertical", "both"),
            horizontal=horizontal < 0.5 and augment.flip in ("horizontal", "both"),
            shift=2 * augment.brightness * (2 * shift - 1),  # the full range is 2 wide
            factor=1 + augment.contrast * (2 * factor - 1),
        )

    def window(self, pixels: np.ndarray, height: int, width: int) -> np.ndarray:
        """(h, w, c) -> (height, width, c): the window, mirrored. A view."""
        top = int(self.top * (pixels.shape[0] - height + 1))
        left = int(self.left * (pixels.shape[1] - width + 1))
        rows, columns = (-1 if self.vertical else 1), (-1 if self.horizontal else 1)
        return pixels[top : top + height, left : left + width][::rows, ::columns]

    def jitter(self, pixels: np.ndarray) -> None:
        """Brightness and contrast of (h, w, c) in [-1, 1], in place, alpha apart; clipped to the range."""
        if self.shift == 0.0 and self.factor == 1.0:
            return
        colour = pixels[..., :3]
        colour *= np.float32(self.factor)
        colour += np.float32(self.shift)
        colour.clip(-1, 1, out=colour)
