"""Batches of static shape, made ahead of time by threads. Nothing here remembers anything that a resumed run needs."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

Batch = dict[str, np.ndarray]
Fill = Callable[[int, np.ndarray, np.ndarray], None]
AHEAD_BYTES = 256 * 2**20


def default_ahead(batch_bytes: int) -> int:
    """How many batches to make ahead: as many as `AHEAD_BYTES` hold, at least 2 and at most 16."""
    return min(16, max(2, AHEAD_BYTES // batch_bytes))


class Batches(Iterator[Batch]):
    """Iterates over dicts of input (b, h, w, ci) and target (b, h, w, co), float32 in [-1, 1].

    `wait_seconds` grows by the time that `next` stood waiting: over the wall time of the loop around it, that is the
    share of time lost to input. `close` (or leaving a `with`) stops the threads.

    Args:
        fill: makes one sample: (number, input (h, w, ci), target (h, w, co)), the last two to be written.
        shapes: per-sample shapes of input and target.
        batch: samples per batch.
        start: number of the first sample.
        stop: number after the last sample; the last batch is filled up with repeats of it. None: endless.
        workers: threads.
        ahead: batches made beyond the one in use.
        label: number of a sample -> its class, which becomes `label`, (b,) float32. None: there is none.
        rows: which rows of each batch to make (None: all).
    """

    def __init__(
        self,
        fill: Fill,
        shapes: dict[str, tuple[int, ...]],
        batch: int,
        start: int,
        stop: int | None,
        workers: int,
        ahead: int,
        label: Callable[[int], int] | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        self.batch, self.wait_seconds, self._label = batch, 0.0, label
        self._numbers = range(batch) if rows is None else rows
        self._fill, self._shapes, self._next, self._stop, self._workers = fill, shapes, start, stop, workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="unetkit-data")
        self._closed = threading.Event()
        self._ahead: deque[tuple[Batch, list[Future[None]]]] = deque()
        for _ in range(ahead):
            self._begin()

    def _begin(self) -> None:
        """Hands the next batch to the threads, in one run of rows for each."""
        if self._stop is not None and self._next >= self._stop:
            return
        count = len(self._numbers)
        arrays = {name: np.empty((count, *shape), np.float32) for name, shape in self._shapes.items()}
        if self._label:
            arrays["label"] = np.empty(count, np.float32)
        bounds = np.linspace(0, count, min(self._workers, count) + 1).astype(int).tolist()
        runs = [self._pool.submit(self._rows, arrays, self._next, *run) for run in itertools.pairwise(bounds)]
        self._ahead.append((arrays, runs))
        self._next += self.batch

    def _rows(self, arrays: Batch, first: int, begin: int, end: int) -> None:
        for row in range(begin, end):
            if self._closed.is_set():
                return
            number = first + self._numbers[row]
            number = number if self._stop is None else min(number, self._stop - 1)
            self._fill(number, arrays["input"][row], arrays["target"][row])
            if self._label:
                arrays["label"][row] = self._label(number)

    def __next__(self) -> Batch:
        if self._closed.is_set() or not self._ahead:
            self.close()
            raise StopIteration
        arrays, futures = self._ahead.popleft()
        self._begin()
        began = time.perf_counter()
        try:
            for future in futures:
                future.result()
        except BaseException:
            self.close()
            raise
        self.wait_seconds += time.perf_counter() - began
        return arrays

    def close(self) -> None:
        """Stops the threads; what they had begun is thrown away."""
        self._closed.set()
        self._pool.shutdown(cancel_futures=True)
        self._ahead.clear()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Pass(Iterator[tuple[Batch, int]]):
    """Iterates once over (batch, how many of its samples are real)."""

    def __init__(self, batches: Batches, count: int) -> None:
        self._batches, self._left = batches, count

    @property
    def wait_seconds(self) -> float:
        """As of `Batches`."""
        return self._batches.wait_seconds

    def __next__(self) -> tuple[Batch, int]:
        batch = next(self._batches)
        real = min(self._left, self._batches.batch)
        self._left -= real
        return batch, real

    def close(self) -> None:
        """Stops the threads."""
        self._batches.close()

    def __enter__(self) -> Pass:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
