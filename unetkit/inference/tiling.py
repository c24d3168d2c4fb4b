"""Where tiles lie along one axis and what each of them counts for: integers and weights, no network."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unetkit import shapes
from unetkit.errors import UserError

WINDOWS = ("exact", "hann", "gaussian")
FLOOR = 1e-3
"""Least weight inside a tile before the weights are made to sum to one: a pixel that one tile alone covers needs some."""
SIGMAS_PER_TILE = 8  # of the Gaussian window: sigma = tile / 8, as nnU-Net (Isensee et al. 2021) blends its patches


@dataclass(frozen=True)
class Axis:
    """The tiles of one axis for one length.

    Attributes:
        length: of the image, in pixels.
        before: pixels mirrored in front of it; what is mirrored behind it follows from `starts`.
        starts: first pixel of each tile, counted from `before` pixels ahead of the image.
        weights: (tiles, tile) float32; over each pixel of the image they sum to one.
    """

    length: int
    before: int
    starts: tuple[int, ...]
    weights: np.ndarray

    def sources(self, number: int) -> np.ndarray:
        """(tile,) for each pixel of a tile the pixel of the image that it is: itself, or its mirror image over an edge."""
        place = np.arange(self.weights.shape[1]) + (self.starts[number] - self.before)
        if self.length == 1:
            return np.zeros_like(place)
        period = 2 * (self.length - 1)
        place = place % period
        return np.minimum(place, period - place)

    def inside(self, number: int) -> slice | None:
        """The pixels of a tile as a stretch of the image; None where some are mirrored."""
        start = self.starts[number] - self.before
        end = start + self.weights.shape[1]
        return slice(start, end) if start >= 0 and end <= self.length else None

    def counted(self, number: int) -> tuple[slice, slice]:
        """(part of the image, part of the tile): where this tile has weight and the image has pixels."""
        start = self.starts[number] - self.before
        has = np.flatnonzero(self.weights[number])
        first, last = max(int(has[0]), -start), min(int(has[-1]) + 1, self.length - start)
        return slice(start + first, start + last), slice(first, last)


@functools.lru_cache(maxsize=256)
def axis(length: int, tile: int, overlap: int, stride: int, window: str, radius: int) -> Axis:
    """The tiles of one axis.

    An image shorter than a tile stands in its middle; else it begins where the first tile does, so that a length that is a
    multiple of `stride` is mirrored nowhere, and the tiles at its rim end where it ends.

    Args:
        length: of the image.
        tile, overlap, stride: as of `shapes.tile_starts`.
        window: exact, hann or gaussian.
        radius: receptive radius of the network, for the exact window.

    Raises:
        UserError: an empty image, an unknown window, or an overlap that does not fit the tile or the exact window.
    """
    if length < 1:
        raise UserError(f"the image has {length} pixels along an axis; 1 is the least")
    if window not in WINDOWS:
        raise UserError(f"window: {window!r} is none of {', '.join(WINDOWS)}")
    padded = max(tile, shapes.round_up(length, stride))
    starts = shapes.tile_starts(padded, tile, overlap, stride)
    raw = np.stack([_raw(window, tile, radius, first=n == 0, last=n == len(starts) - 1) for n in range(len(starts))])
    total = np.zeros(padded)
    for start, weights in zip(starts, raw, strict=True):
        total[start : start + tile] += weights
    if not total.all():
        raise UserError(
            f"window: exact gives no weight within {radius} pixels of a tile's inner edges, so neighbours must share at least "
            f"{2 * radius} pixels; overlap is {overlap}"
        )
    weights = np.stack([w / total[start : start + tile] for start, w in zip(starts, raw, strict=True)])
    before = (padded - length) // 2 // stride * stride
    return Axis(length, before, starts, weights.astype(np.float32))


def _raw(window: str, tile: int, radius: int, *, first: bool, last: bool) -> np.ndarray:
    """(tile,) weights before they are made to sum to one. At the image's own rim there is no neighbour to leave pixels to."""
    place = np.arange(tile)
    if window == "exact":
        low, high = (0 if first else radius), (tile if last else tile - radius)
        return ((place >= low) & (place < high)).astype(float)
    if window == "hann":
        bell = np.sin(np.pi * (place + 0.5) / tile) ** 2
    else:
        bell = np.exp(-0.5 * ((place - (tile - 1) / 2) / (tile / SIGMAS_PER_TILE)) ** 2)
    return np.maximum(bell, FLOOR)


def per_axis(name: str, value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number, or one per axis, as one per axis; `name` begins the UserError where their number is another."""
    sides = (value,) * rank if isinstance(value, int) else tuple(int(side) for side in value)
    if len(sides) != rank:
        raise UserError(f"{name}: {value} has {len(sides)} numbers; this network has {rank} axes")
    return sides
