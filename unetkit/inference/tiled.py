"""Inputs of any size through a network of one shape: tiles for images, overlap-add for signals."""

from __future__ import annotations

import itertools
import math
import os
import tempfile
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unetkit import shapes
from unetkit.errors import UserError, WorkError
from unetkit.inference.fixed import Fixed
from unetkit.inference.tiling import WINDOWS, Axis, axis, per_axis

if TYPE_CHECKING:
    import keras

MEMORY_BYTES = 2**30


@dataclass(frozen=True)
class Plan:
    """How an input of one size is cut.

    Attributes:
        axes: the tiles along each axis.
        tiles: how many there are.
        redundancy: pixels computed per pixel of the input, overlap and mirrored rim included.
    """

    axes: tuple[Axis, ...]
    tiles: int
    redundancy: float


class Tiled:
    """Applies a network to inputs of any size through exactly one shape, so that nothing is compiled anew.

    ```python
    tiled = Tiled(model, tile=256)
    picture = tiled(image)  # (h, w, c) -> (h, w, any); a signal (w, c) -> (w, any) for a model of signals
    ```

    Tiles begin on the grid of the network's total stride, evenly spaced, so that pooling falls on the same pixels as in one
    pass over the whole; they are weighted so that the weights of each pixel sum to one. What lies beyond the input's rim is
    its mirror image. The last batch of tiles is filled up with repeats, which are thrown away.

    With the window `exact`, a tile has no weight within the receptive radius of its inner edges: inputs whose sides are
    multiples of the total stride, and no smaller than a tile, come out as from one pass over the whole. `hann` and
    `gaussian` blend neighbours, which hides the seams of tiles that cannot be exact.

    Args:
        model: from (b, h, w, c) or (b, w, c) to as many pixels, any channels; or a `Fixed`, as an opened bundle has it.
        tile: pixels of a tile, one number or one per axis; a multiple of the total stride. None: the model's own size.
        overlap: least number of pixels that neighbours share, one number or one per axis; `auto`: twice the receptive
            radius, at most half a tile (a warning names the tile that would be exact).
        window: exact, hann or gaussian; `auto`: exact where the overlap allows it, else hann.
        batch: tiles computed at once (None: what suits the device).
        memory_bytes: outputs larger than this are kept in a file instead of in memory (a `numpy.memmap`).
        scratch: folder of those files (None: the system's).

    Attributes:
        tile, overlap: per axis.
        window: the one used.
        receptive: radius and total stride of the network.

    Raises:
        UserError: what does not fit: a tile off the grid, an overlap as large as the tile, `exact` where it cannot be.
    """

    def __init__(
        self,
        model: keras.Model | Fixed,
        tile: int | Sequence[int] | None = None,
        *,
        overlap: int | Sequence[int] | str = "auto",
        window: str = "auto",
        batch: int | None = None,
        memory_bytes: int = MEMORY_BYTES,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        self.memory_bytes, self.scratch = memory_bytes, scratch
        if isinstance(model, Fixed):
            fixed = model
        else:
            from unetkit.inference.fixing import fix

            fixed = fix(model, tile, batch)
        self.tile, self.receptive, self.batch = fixed.tile, fixed.receptive, fixed.batch
        self.channels, self.output_channels, self._run = fixed.channels, fixed.output_channels, fixed.run
        self.overlap = self._overlap(overlap)
        self.window = self._window(window)
        self.plan(self.tile)  # refuses what cannot work before there is any work

    def _overlap(self, asked: int | Sequence[int] | str) -> tuple[int, ...]:
        if asked != "auto":
            if isinstance(asked, str):
                raise UserError(f"overlap: {asked!r} is neither a number of pixels nor auto")
            return per_axis("overlap", asked, len(self.tile))
        radius, stride = self.receptive.radius, self.receptive.stride
        halves = tuple(side // 2 // stride * stride for side in self.tile)
        if radius is None:
            self._warn(f"{self.receptive.everywhere} looks at a whole tile, as far as can be told: no tile gives what one pass would")
            return halves
        if any(2 * r > half for r, half in zip(radius, halves, strict=True)):
            exact = " x ".join(str(max(side, shapes.round_up(4 * r, 2 * stride))) for side, r in zip(self.tile, radius, strict=True))
            self._warn(
                f"the network looks {max(radius)} pixels far, which is too far for tiles of {' x '.join(map(str, self.tile))}: "
                f"they will differ a little from one pass over all. A tile of {exact} would be exact"
            )
        return tuple(min(2 * r, half) for r, half in zip(radius, halves, strict=True))

    def _window(self, asked: str) -> str:
        if asked not in ("auto", *WINDOWS):
            raise UserError(f"window: {asked!r} is none of auto, {', '.join(WINDOWS)}")
        radius = self.receptive.radius
        enough = radius is not None and all(2 * r <= o for r, o in zip(radius, self.overlap, strict=True))
        if asked == "exact" and radius is None:
            raise UserError(f"window: exact cannot be: {self.receptive.everywhere} looks at a whole tile, as far as can be told; hann can")
        if asked == "exact" and not enough:
            least = [shapes.round_up(2 * r + self.receptive.stride, self.receptive.stride) for r in radius]
            raise UserError(
                f"window: exact needs an overlap of {max(2 * r for r in radius)}, twice the receptive radius, and so a tile of at least "
                f"{' x '.join(map(str, least))}; overlap is {max(self.overlap)} and the tile {' x '.join(map(str, self.tile))}"
            )
        return asked if asked != "auto" else "exact" if enough else "hann"

    def _warn(self, text: str) -> None:
        warnings.warn(f"Tiled: {text}.", stacklevel=4)

    def plan(self, sides: Sequence[int]) -> Plan:
        """How an input of these sides, without channels, is cut."""
        radius = self.receptive.radius or (0,) * len(self.tile)
        stride = self.receptive.stride
        axes = tuple(axis(*each, stride, self.window, r) for *each, r in zip(sides, self.tile, self.overlap, radius, strict=True))
        tiles = math.prod(len(one.starts) for one in axes)
        return Plan(axes, tiles, tiles * math.prod(self.tile) / math.prod(sides))

    def __call__(self, image: np.ndarray) -> np.ndarray:
        """(h, w, c) or (w, c), any size -> the same size, float32; a `numpy.memmap` above `memory_bytes`.

        Raises:
            UserError: an empty input, another rank or number of channels, or a value that is no number.
        """
        return next(self.map([image]))

    def map(self, images: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """One output per input, in order. Tiles of different inputs share batches, so that small ones waste nothing."""
        jobs: deque[_Job] = deque()
        waiting: list[tuple[_Job, tuple[int, ...]]] = []
        for image in images:
            job = self._job(image)
            jobs.append(job)
            for number in itertools.product(*(range(len(one.starts)) for one in job.plan.axes)):
                waiting.append((job, number))
                if len(waiting) == self.batch:
                    self._compute(waiting)
                    waiting = []
            while jobs and jobs[0].left == 0:
                yield jobs.popleft().output
        if waiting:
            self._compute(waiting)
        yield from (job.output for job in jobs)

    def _job(self, image: np.ndarray) -> _Job:
        rank = len(self.tile)
        if image.ndim != rank + 1 or 0 in image.shape:
            raise UserError(f"an input of shape {image.shape}: expected {'(h, w, c)' if rank == 2 else '(w, c)'}, none of them 0")
        if image.shape[-1] != self.channels:
            raise UserError(f"an input of shape {image.shape} has {image.shape[-1]} channels; the network takes {self.channels}")
        plan = self.plan(image.shape[:-1])
        shape = (*image.shape[:-1], self.output_channels)
        return _Job(image, plan, self._empty(shape), plan.tiles)

    def _empty(self, shape: tuple[int, ...]) -> np.ndarray:
        size = 4 * math.prod(shape)
        if size <= self.memory_bytes:
            return np.zeros(shape, np.float32)
        with tempfile.TemporaryFile(dir=self.scratch, prefix="unetkit-") as file:
            try:
                # All of it now: a disk found full in the middle would end the process without a word.
                os.posix_fallocate(file.fileno(), 0, size) if hasattr(os, "posix_fallocate") else file.truncate(size)
            except OSError as error:
                where = self.scratch or tempfile.gettempdir()
                raise WorkError(f"{where} has no room for an output of {size / 2**30:.1f} GiB: {error.strerror}") from error
            return np.memmap(file, np.float32, "r+", shape=shape)

    def _compute(self, waiting: list[tuple[_Job, tuple[int, ...]]]) -> None:
        tiles = np.stack([job.read(number) for job, number in waiting])
        if not np.isfinite(tiles).all():
            raise UserError("the input holds values that are no numbers (NaN or infinite)")
        missing = self.batch - len(waiting)
        if missing:
            tiles = np.concatenate([tiles, np.repeat(tiles[-1:], missing, axis=0)])
        for (job, number), made in zip(waiting, self._run(tiles), strict=False):
            job.add(number, made)


@dataclass
class _Job:
    """One input on its way: its tiles are read from it as they are needed, and added up in `output`."""

    image: np.ndarray
    plan: Plan
    output: np.ndarray
    left: int

    def read(self, number: tuple[int, ...]) -> np.ndarray:
        """A tile of the input, (*tile, c) float32."""
        tile = [(one, one.inside(n), n) for one, n in zip(self.plan.axes, number, strict=True)]
        if all(stretch is not None for _, stretch, _ in tile):  # cut out at once, not gathered pixel by pixel
            return np.asarray(self.image[tuple(stretch for _, stretch, _ in tile)], np.float32)
        rows = [one.sources(n) for one, _, n in tile]
        return np.asarray(self.image[np.ix_(*rows)], np.float32)

    def add(self, number: tuple[int, ...], made: np.ndarray) -> None:
        """Adds a tile of the output where it counts."""
        places = [one.counted(n) for one, n in zip(self.plan.axes, number, strict=True)]
        made = made[tuple(own for _, own in places)]
        for place, (one, n) in enumerate(zip(self.plan.axes, number, strict=True)):
            weights = one.weights[n][places[place][1]]
            if (weights != 1).any():
                made = made * weights.reshape((-1,) + (1,) * (made.ndim - 1 - place))
        self.output[tuple(there for there, _ in places)] += made
        self.left -= 1
