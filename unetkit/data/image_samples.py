"""Pictures as samples of a run: read, fitted to one size, changed at random, and made into pairs by a task."""

from __future__ import annotations

import numpy as np

from unetkit.data import memory
from unetkit.data.augment import Change
from unetkit.data.geometry import Fit
from unetkit.data.order import TASK, digest, generator
from unetkit.data.sources import Arrays, Source
from unetkit.data.tasks import maker
from unetkit.recipe import schema


class ImageSamples:
    """See `split.Samples`. `names` and `numbers` are those of the items on this side, `kind` train or validation."""

    def __init__(self, kind: str, source: Source, names: tuple[str, ...], numbers: list[int], data: schema.Data, seed: int) -> None:
        height, width = (data.size, data.size) if isinstance(data.size, int) else data.size
        self.shapes = {"input": (height, width, data.input_channels), "target": (height, width, data.target_channels)}
        self._source, self._names, self._numbers, self._data, self._seed = source, names, numbers, data, seed
        self._fit = Fit(height=height, width=width, policy=data.resize, background=data.background)
        # training reads larger pictures than it gives: a random window is cut from them
        self._larger = self._fit.larger(data.augment.crop_margin)
        self._kept_fit = self._larger if kind == "train" else self._fit
        self._kept: list[Arrays | None] = [None] * len(numbers) if data.cache == "memory" else []
        self._task = maker(data)

    def drawn(self, i: int, k: int, augment: bool, first: np.ndarray, second: np.ndarray) -> None:
        change = Change.draw(self._data.augment, self._seed, k) if augment else Change()
        random = generator(self._seed, TASK, k) if self._task else None
        self._write(i, self._larger if augment else self._fit, change, random, first, second)

    def plain(self, i: int, first: np.ndarray, second: np.ndarray) -> None:
        random = generator(0, TASK, digest(self._names[i])) if self._task else None
        self._write(i, self._fit, Change(), random, first, second)

    def remedies(self) -> list[str]:
        fixes = []
        if self._data.cache == "none" and not isinstance(self._data.source, schema.Emoji | schema.Synthetic):
            need = memory.in_words(kept_bytes(self._data, len(self._numbers)))
            fixes.append(f"set data.cache: memory (about {need}), which reads and resizes each file once")
        return [*fixes, "store the images nearer to the training size"]

    def _write(self, i: int, fit: Fit, change: Change, random: np.random.Generator | None, first: np.ndarray, second: np.ndarray) -> None:
        for pixels, out in zip(self._read(i, fit), (first, second), strict=True):
            window = change.window(pixels, *out.shape[:2])
            np.subtract(window, np.float32(127.5), out=out)
            out /= np.float32(127.5)
            change.jitter(out)
        if self._task:
            first[:] = self._task(first, random)

    def _read(self, i: int, fit: Fit) -> Arrays:
        """Item i at `fit`, from memory where it is kept: decoded and resized, not yet augmented."""
        if not self._kept or fit != self._kept_fit:
            return self._source.pair(self._numbers[i], fit)
        kept = self._kept[i]
        if kept is None:
            kept = self._kept[i] = self._source.pair(self._numbers[i], fit)
        return kept


def kept_bytes(data: schema.Data, count: int, value_bytes: int = 1) -> int:
    """Bytes that `count` training items take with `cache: memory`."""
    height, width = (data.size, data.size) if isinstance(data.size, int) else data.size
    fit = Fit(height=height, width=width, policy=data.resize, background=data.background).larger(data.augment.crop_margin)
    shared = isinstance(data.source, schema.Folder) and data.input_channels == data.target_channels
    channels = data.target_channels if shared else data.input_channels + data.target_channels
    return memory.image_bytes(count, fit.height, fit.width, channels, value_bytes)
