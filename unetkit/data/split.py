"""Training and validation: which items, and each of them as batches."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from unetkit.data import memory
from unetkit.data.augment import Change
from unetkit.data.geometry import Fit
from unetkit.data.loader import Batch, Batches, Fill, Pass, default_ahead
from unetkit.data.order import TASK, Order, digest, generator
from unetkit.data.sources import Arrays, Source
from unetkit.data.survey import Item, threads
from unetkit.data.tasks import maker
from unetkit.errors import UserError
from unetkit.recipe import schema


def divide(items: tuple[Item, ...], split: schema.Split) -> tuple[list[int], list[int]]:
    """Numbers of the training and of the validation items, each in the order of `items`.

    Whole groups are held out, in the order of a hash of their names, each that still fits into the share: the choice
    depends on names alone, not on the run's seed, so that runs compare. With more than one group and a share above
    zero, each side has at least one. `limit` keeps the training items whose names have the smallest hashes.
    """
    groups = defaultdict[str, list[int]](list)
    for number, item in enumerate(items):
        groups[item.group].append(number)
    wanted = split.validation * len(items)
    room = 0 if split.validation == 0 or len(groups) < 2 else max(1, round(wanted))
    by_hash = sorted(groups, key=digest)
    held: list[int] = []
    for group in by_hash:
        if len(held) + len(groups[group]) <= room:
            held += groups[group]
    if room and not held:
        held = list(groups[by_hash[0]])
    held_out = set(held)
    training = [number for number in range(len(items)) if number not in held_out]
    if split.limit is not None:
        training = sorted(sorted(training, key=lambda number: digest(items[number].name))[: split.limit])
    return training, sorted(held)


class Split:
    """One side of the data. Arrays are float32 in [-1, 1]: input (h, w, ci), target (h, w, co)."""

    def __init__(self, kind: str, source: Source, items: tuple[Item, ...], numbers: list[int], data: schema.Data, seed: int) -> None:
        height, width = (data.size, data.size) if isinstance(data.size, int) else data.size
        self.kind = kind
        self.names = tuple(items[number].name for number in numbers)
        self.shapes = {"input": (height, width, data.input_channels), "target": (height, width, data.target_channels)}
        self._source, self._numbers, self._data, self._seed = source, numbers, data, seed
        self._fit = Fit(height=height, width=width, policy=data.resize, background=data.background)
        # training reads larger pictures than it gives: a random window is cut from them
        self._larger = self._fit.larger(data.augment.crop_margin)
        self._kept_fit = self._larger if kind == "train" else self._fit
        self._kept: list[Arrays | None] = [None] * len(numbers) if data.cache == "memory" else []
        self._order = Order(len(numbers), seed)
        self._task = maker(data)
        self._workers = threads(data.workers)

    def __len__(self) -> int:
        return len(self._numbers)

    def batches(self, batch: int, start: int = 0, augment: bool = True, epoch_shuffle: bool = True, ahead: int | None = None) -> Batches:
        """Endless batches of samples `start`, `start + 1`, ...; sample k depends on (seed, k) alone.

        Each epoch of `len(self)` samples holds every item once, in an order of its own (in the order of `names` with
        `epoch_shuffle=False`). A batch may reach over the end of an epoch. Resuming after s steps is `start=s * batch`.
        `ahead` batches are made beyond the one in use (None: what 256 MiB hold, 2 to 16); a loop that takes several at
        a time wants at least as many.
        """
        if not self._numbers:
            raise UserError(f"the {self.kind} split is empty; data.split.validation is {self._data.split.validation}")

        def fill(k: int, first: np.ndarray, second: np.ndarray) -> None:
            self._sample(k, augment, epoch_shuffle, first, second)

        return self._batches(fill, batch, start, None, ahead)

    def every(self, batch: int) -> Pass:
        """Once over all items, unaugmented, in the order of `names`: (batch, how many of its samples are real).

        The last batch is filled up with repeats of its last sample. What a task draws depends on the item's name
        alone, so that the numbers of different runs, seeds and epochs compare.
        """
        return Pass(self._batches(self._plain, batch, 0, len(self), None), len(self))

    def sample(self, k: int, augment: bool = True, epoch_shuffle: bool = True) -> Batch:
        """Sample k of `batches`, alone: without the batch axis."""
        arrays = self._empty()
        self._sample(k, augment, epoch_shuffle, arrays["input"], arrays["target"])
        return arrays

    def pair(self, i: int) -> Batch:
        """Item i of `every`, alone: without the batch axis."""
        arrays = self._empty()
        self._plain(i, arrays["input"], arrays["target"])
        return arrays

    def remedy(self) -> str:
        """What to change when training waits for this split."""
        fixes = []
        if self._data.cache == "none" and not isinstance(self._data.source, schema.Emoji | schema.Synthetic):
            need = memory.in_words(kept_bytes(self._data, len(self)))
            fixes.append(f"set data.cache: memory (about {need}), which reads and resizes each file once")
        fixes.append(f"raise data.workers (now {self._workers}), if the machine has more cores")
        fixes.append("store the images nearer to the training size")
        fixes.append("see with data.source: synthetic how fast the device goes with perfect input")
        return "; or ".join(fixes)

    def _empty(self) -> Batch:
        return {name: np.empty(shape, np.float32) for name, shape in self.shapes.items()}

    def _batches(self, fill: Fill, batch: int, start: int, stop: int | None, ahead: int | None) -> Batches:
        each = sum(memory.image_bytes(batch, *shape, 4) for shape in self.shapes.values())
        ahead = default_ahead(each) if ahead is None else ahead
        memory.require((ahead + 1) * each, f"reading {ahead} batches of {batch:,} ahead", "use a smaller training.batch or data.size")
        return Batches(fill, self.shapes, batch, start, stop, self._workers, ahead)

    def _sample(self, k: int, augment: bool, shuffle: bool, first: np.ndarray, second: np.ndarray) -> None:
        change = Change.draw(self._data.augment, self._seed, k) if augment else Change()
        random = generator(self._seed, TASK, k) if self._task else None
        self._write(self._order.index(k, shuffle), self._larger if augment else self._fit, change, random, first, second)

    def _plain(self, i: int, first: np.ndarray, second: np.ndarray) -> None:
        random = generator(0, TASK, digest(self.names[i])) if self._task else None
        self._write(i, self._fit, Change(), random, first, second)

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
