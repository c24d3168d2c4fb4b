"""Training and validation: which items, and each of them as batches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from unetkit.data import memory
from unetkit.data.items import Item, threads
from unetkit.data.loader import Batch, Batches, Fill, Pass, default_ahead
from unetkit.data.order import Order, digest
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


class Samples(Protocol):
    """What the items of one side are as arrays, float32 in [-1, 1]: input (h, w, ci), target (h, w, co), or (w, c) both.

    `drawn` writes item i as sample k of a run, a pure function of (seed, k); `plain` writes it unaugmented, and what its task
    draws depends on its name alone.
    """

    shapes: dict[str, tuple[int, ...]]

    def drawn(self, i: int, k: int, augment: bool, first: np.ndarray, second: np.ndarray) -> None: ...

    def plain(self, i: int, first: np.ndarray, second: np.ndarray) -> None: ...

    def remedies(self) -> list[str]:
        """What would make reading faster."""
        ...


class Split:
    """One side of the data. Arrays are float32 in [-1, 1]: input (h, w, ci) or (w, ci), target the same with co, label () a class."""

    def __init__(
        self, kind: str, names: tuple[str, ...], samples: Samples, data: schema.Data, seed: int, labels: Sequence[int] = ()
    ) -> None:
        self.kind, self.names, self.shapes = kind, names, samples.shapes
        self._samples, self._data = samples, data
        self._labels = labels
        self._order = Order(len(names), seed)
        self._workers = threads(data.workers)

    def __len__(self) -> int:
        return len(self.names)

    def batches(
        self,
        batch: int,
        start: int = 0,
        augment: bool = True,
        epoch_shuffle: bool = True,
        ahead: int | None = None,
        rows: Sequence[int] | None = None,
    ) -> Batches:
        """Endless batches of samples `start`, `start + 1`, ...; sample k depends on (seed, k) alone.

        Each epoch of `len(self)` samples holds every item once, in an order of its own (in the order of `names` with
        `epoch_shuffle=False`). A batch may reach over the end of an epoch. Resuming after s steps is `start=s * batch`.
        `ahead` batches are made beyond the one in use (None: what 256 MiB hold, 2 to 16); a loop that takes several at
        a time wants at least as many. With `rows` only those of each batch are read: a host's share of it.
        """
        if not self.names:
            raise UserError(f"the {self.kind} split is empty; data.split.validation is {self._data.split.validation}")

        def fill(k: int, first: np.ndarray, second: np.ndarray) -> None:
            self._sample(k, augment, epoch_shuffle, first, second)

        return self._batches(fill, batch, start, None, ahead, lambda k: self._labels[self._order.index(k, epoch_shuffle)], rows)

    def share(self, index: int, count: int) -> Share:
        """Every `count`-th item from `index` on, once, as a host evaluates its part."""
        return Share(self, range(index, len(self), count))

    def every(self, batch: int) -> Pass:
        """Once over all items, unaugmented, in the order of `names`: (batch, how many of its samples are real).

        The last batch is filled up with repeats of its last sample. What a task draws depends on the item's name
        alone, so that the numbers of different runs, seeds and epochs compare.
        """
        return self.every_of(range(len(self)), batch)

    def every_of(self, items: Sequence[int], batch: int) -> Pass:
        """`every` over some of the items."""

        def fill(i: int, first: np.ndarray, second: np.ndarray) -> None:
            self._samples.plain(items[i], first, second)

        return Pass(self._batches(fill, batch, 0, len(items), None, lambda i: self._labels[items[i]]), len(items))

    def sample(self, k: int, augment: bool = True, epoch_shuffle: bool = True) -> Batch:
        """Sample k of `batches`, alone: without the batch axis."""
        arrays = self._empty()
        self._sample(k, augment, epoch_shuffle, arrays["input"], arrays["target"])
        return arrays | self._label(self._order.index(k, epoch_shuffle))

    def pair(self, i: int) -> Batch:
        """Item i of `every`, alone: without the batch axis."""
        arrays = self._empty()
        self._samples.plain(i, arrays["input"], arrays["target"])
        return arrays | self._label(i)

    def remedy(self) -> str:
        """What to change when training waits for this split."""
        synthetic = "synthetic" if len(self.shapes["input"]) == 3 else "{kind: synthetic, rank: 1}"
        return "; or ".join(
            [
                *self._samples.remedies(),
                f"raise data.workers (now {self._workers}), if the machine has more cores",
                f"see with data.source: {synthetic} how fast the device goes with perfect input",
            ]
        )

    def _label(self, i: int) -> Batch:
        return {"label": np.float32(self._labels[i])} if self._labels else {}

    def _empty(self) -> Batch:
        return {name: np.empty(shape, np.float32) for name, shape in self.shapes.items()}

    def _batches(
        self,
        fill: Fill,
        batch: int,
        start: int,
        stop: int | None,
        ahead: int | None,
        label: Callable[[int], int],
        rows: Sequence[int] | None = None,
    ) -> Batches:
        each = sum(4 * (batch if rows is None else len(rows)) * math.prod(shape) for shape in self.shapes.values())
        ahead = default_ahead(each) if ahead is None else ahead
        memory.require((ahead + 1) * each, f"reading {ahead} batches of {batch:,} ahead", "use a smaller training.batch or data.size")
        return Batches(fill, self.shapes, batch, start, stop, self._workers, ahead, label if self._labels else None, rows)

    def _sample(self, k: int, augment: bool, shuffle: bool, first: np.ndarray, second: np.ndarray) -> None:
        self._samples.drawn(self._order.index(k, shuffle), k, augment, first, second)


class Share:
    """A part of a split to go over once; `items` are their numbers in it."""

    def __init__(self, split: Split, items: Sequence[int]) -> None:
        self._split, self.items = split, items

    def __len__(self) -> int:
        return len(self.items)

    def every(self, batch: int) -> Pass:
        """As of `Split`."""
        return self._split.every_of(self.items, batch)
