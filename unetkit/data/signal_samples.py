"""Windows of sound as samples of a run: (w, c) float32 in [-1, 1], from WAV files, from the built-in tunes, or noise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from unetkit.data import memory
from unetkit.data.items import Item
from unetkit.data.order import AUGMENT, TASK, digest, generator
from unetkit.data.sounds import length_at, read_window
from unetkit.data.tones import TUNE_SECONDS, tune
from unetkit.data.wav import SoundHeader
from unetkit.recipe import schema
from unetkit.shapes import as_sides

Arrays = tuple[np.ndarray, ...]


class SignalSource(Protocol):
    """`window(i, place)` gives item i, (w, ci) and (w, co), or one (w, c) that a task makes the input of.

    `place` moves the window within the item's own stretch of sound, 0 to 1; None: where the item begins.
    """

    def window(self, i: int, place: float | None) -> Arrays: ...


class SoundSource:
    """Windows of WAV files, read each time they are asked for, or from memory."""

    def __init__(self, data: schema.Data, items: tuple[Item, ...], headers: Mapping[Path, SoundHeader]) -> None:
        self.items, self.headers, self.size, self.source = items, headers, as_sides(data.size, 1)[0], data.source
        self.channels = (data.input_channels, data.target_channels)
        self.kept: dict[Path, np.ndarray] | None = {} if data.cache == "memory" else None

    def window(self, i: int, place: float | None) -> Arrays:
        item = self.items[i]
        length = min(length_at(self.headers[path], self.source.rate) for path in item.files)
        if length <= self.size:  # a short file stands somewhere in silence
            ahead = 0 if place is None else int(place * (self.size - length + 1))
            windows = [
                np.pad(self._read(n, path, 0, length), ((ahead, self.size - length - ahead), (0, 0))) for n, path in enumerate(item.files)
            ]
            return tuple(windows)
        room = min(item.first + self.size, length - self.size) - item.first
        start = item.first + (0 if place is None else int(place * (room + 1)))
        return tuple(self._read(n, path, start, self.size) for n, path in enumerate(item.files))

    def bytes(self) -> int:
        """What the sound takes in memory."""
        each = [length_at(self.headers[path], self.source.rate) * self.channels[n] for path, n in self._members()]
        return 4 * sum(each)

    def _members(self) -> set[tuple[Path, int]]:
        return {(path, n) for item in self.items for n, path in enumerate(item.files)}

    def _read(self, member: int, path: Path, start: int, count: int) -> np.ndarray:
        how = (self.source.rate, self.channels[member], self.source.channel)
        header = self.headers[path]
        if self.kept is None:
            return read_window(path, header, start, count, *how)
        if path not in self.kept:
            self.kept[path] = read_window(path, header, 0, length_at(header, self.source.rate), *how)
        return self.kept[path][start : start + count]


class TonesSource:
    """The built-in tunes."""

    def __init__(self, data: schema.Data) -> None:
        self.size, self.rate = as_sides(data.size, 1)[0], data.source.rate

    def window(self, i: int, place: float | None) -> Arrays:
        start = 0 if place is None else int(place * TUNE_SECONDS * self.rate)
        return (tune(i, start, self.size, self.rate)[:, None],)


class NoiseSource:
    """A few pairs of noise, drawn once: what comes after reading, without that."""

    KEPT = 16

    def __init__(self, data: schema.Data) -> None:
        random = np.random.default_rng(0)
        shapes = [(*as_sides(data.size, 1), channels) for channels in (data.input_channels, data.target_channels)]
        self.pairs = [tuple(random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes) for _ in range(self.KEPT)]

    def window(self, i: int, place: float | None) -> Arrays:
        return self.pairs[i % self.KEPT]


def denoise(task: schema.Denoise, signal: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The signal with Gaussian noise, clipped to the range (which is 2 wide)."""
    return (signal + 2 * np.float32(task.sigma) * random.standard_normal(signal.shape, dtype=np.float32)).clip(-1, 1)


def inpaint(task: schema.Inpaint, signal: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The signal with a silent gap somewhere, `share` of its length (at least one sample)."""
    gap = max(1, round(task.share * len(signal)))
    start = int(random.integers(len(signal) - gap + 1))
    holed = signal.copy()
    holed[start : start + gap] = 0
    return holed


TASKS: dict[str, Any] = {"denoise": denoise, "inpaint": inpaint}


class SignalSamples:
    """See `split.Samples`. Training moves windows at random within their stretch; validation takes them where they begin."""

    def __init__(self, source: SignalSource, names: tuple[str, ...], numbers: list[int], data: schema.Data, seed: int) -> None:
        size = as_sides(data.size, 1)[0]
        self.shapes = {"input": (size, data.input_channels), "target": (size, data.target_channels)}
        self._source, self._names, self._numbers, self._data, self._seed = source, names, numbers, data, seed
        self._task = getattr(data.source, "task", None)

    def drawn(self, i: int, k: int, augment: bool, first: np.ndarray, second: np.ndarray) -> None:
        place, flip, shift, factor = generator(self._seed, AUGMENT, k).random(4).tolist() if augment else (None, 1.0, 0.5, 0.5)
        self._read(i, place, first, second)
        changes = self._data.augment
        for signal in (first, second):
            if flip < 0.5 and changes.flip == "horizontal":
                signal[:] = signal[::-1].copy()
            signal *= np.float32(1 + changes.contrast * (2 * factor - 1))
            signal += np.float32(2 * changes.brightness * (2 * shift - 1))  # the full range is 2 wide
            signal.clip(-1, 1, out=signal)
        self._make(first, second, generator(self._seed, TASK, k))

    def plain(self, i: int, first: np.ndarray, second: np.ndarray) -> None:
        self._read(i, None, first, second)
        self._make(first, second, generator(0, TASK, digest(self._names[i])))

    def remedies(self) -> list[str]:
        if self._data.cache == "memory" or not isinstance(self._source, SoundSource):
            return []
        need = memory.in_words(self._source.bytes())
        return [f"set data.cache: memory (about {need}), which reads and resamples each file once"]

    def _read(self, i: int, place: float | None, first: np.ndarray, second: np.ndarray) -> None:
        windows = self._source.window(self._numbers[i], place)
        first[:], second[:] = windows[0], windows[-1]

    def _make(self, first: np.ndarray, second: np.ndarray, random: np.random.Generator) -> None:
        if self._task:
            first[:] = TASKS[self._task.kind](self._task, second, random)
