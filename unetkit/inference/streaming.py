"""Reading, computing and writing at the same time: threads read ahead and write behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Name = TypeVar("Name")
Value = TypeVar("Value")

THREADS = 2
AHEAD = 3
"""Inputs read before they are wanted, and outputs that wait for the disk; more would only take memory."""


def read_ahead(names: Iterable[Name], read: Callable[[Name], Value]) -> Iterator[tuple[Name, Future[Value]]]:
    """(name, its reading) in order; `result()` of the reading has the value or raises what `read` raised."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="unetkit-read") as pool:
        waiting: deque[tuple[Name, Future[Value]]] = deque()
        try:
            for name in names:
                waiting.append((name, pool.submit(read, name)))
                if len(waiting) > AHEAD:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            for _, future in waiting:
                future.cancel()


class WriteBehind(Generic[Name]):
    """Writes in threads, a few at a time; `put` waits where the disk is slower than the rest.

    Args:
        write: writes one.
        done: is called in the order of `put`, by the caller's own thread, with the name and what `write` raised (or None).
    """

    def __init__(self, write: Callable[..., None], done: Callable[[Name, BaseException | None], None]) -> None:
        self._write, self._done = write, done
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="unetkit-write")
        self._waiting: deque[tuple[Name, Future[None]]] = deque()

    def put(self, name: Name, *arguments: object) -> None:
        self._waiting.append((name, self._pool.submit(self._write, *arguments)))
        while len(self._waiting) > AHEAD or (self._waiting and self._waiting[0][1].done()):
            self._take()

    def __enter__(self) -> WriteBehind[Name]:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Waits for what is being written, also after an error, for what was written counts; the first error is the one to tell."""
        first = error
        while self._waiting:
            try:
                self._take()
            except Exception as another:
                first = first or another
        self._pool.shutdown()
        if first is not None and first is not error:
            raise first

    def _take(self) -> None:
        name, future = self._waiting.popleft()
        self._done(name, future.exception())
