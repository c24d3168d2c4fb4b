"""A network at one shape, wherever it comes from: what `Tiled` needs to know of a model, or of a bundle in any format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Receptive:
    """The receptive field of a whole network.

    Attributes:
        radius: per axis, how many pixels to either side an output pixel depends on at most; None: on the whole tile.
        stride: the network's total stride: shifted by a multiple of it, an input gives the same output, shifted.
        everywhere: with `radius` None, which layer is the reason.
    """

    radius: tuple[int, ...] | None
    stride: int
    everywhere: str | None = None


@dataclass(frozen=True)
class Fixed:
    """A network that takes (batch, *tile, channels) float32 and gives (batch, *tile, output_channels), and nothing else."""

    run: Callable[[np.ndarray], np.ndarray]
    batch: int
    tile: tuple[int, ...]
    channels: int
    output_channels: int
    receptive: Receptive
