"""One question asked beside the training: in a thread of its own, and dropped when the process ends."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from unetkit.tpu.progress import Show

Answered = TypeVar("Answered")


class Dropped(BaseException):
    """Raised inside the question when nobody waits for its answer any longer. It kills the child process that works on it."""


class Beside(Generic[Answered]):
    """Runs `ask(show)` in a thread.

    Args:
        ask: the question; it calls `show` a few times a second, as `unetkit.tpu` does while a child process works.
    """

    def __init__(self, ask: Callable[[Show], Answered]) -> None:
        self._ask, self._dropped, self._ended = ask, threading.Event(), threading.Event()
        self.answer: Answered | None = None
        self.error: Exception | None = None
        threading.Thread(target=self._run, name="unetkit-analysis", daemon=True).start()
        atexit.register(self.drop)

    def _run(self) -> None:
        try:
            self.answer = self._ask(self._show)
        except Dropped:
            pass
        except Exception as error:
            self.error = error
        finally:
            self._ended.set()
            atexit.unregister(self.drop)

    def _show(self, stage: str, seconds: float, expected: float | None) -> None:
        if self._dropped.is_set():
            raise Dropped

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def wait(self) -> None:
        """Waits for the answer."""
        self._ended.wait()

    def drop(self) -> None:
        """Gives the question up, and returns once its child process is gone."""
        self._dropped.set()
        self._ended.wait(5)
