"""SIGTERM and Ctrl-C as a request to stop at the next step, so that the state can be saved first."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_FORCE_AT = 3


class StopSignals:
    """While the block runs, SIGTERM and SIGINT only set a flag that the training loop reads between steps.

    A second signal changes nothing, so that saving is not disturbed. The third Ctrl-C raises KeyboardInterrupt where
    the program stands, for the user who will not wait; a checkpoint in the making is lost then, older ones are not.
    A signal that this process was started to ignore (`nohup`) stays ignored. Outside the main thread Python allows
    no signal handlers: there the object is inert and `requested` stays false.

        with StopSignals() as stop:
            while not stop.requested:
                step()
        sys.exit(stop.exit_status)
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._count = 0
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether one of the signals has come."""
        return self.received is not None

    @property
    def exit_status(self) -> int:
        """143 after SIGTERM, 130 after Ctrl-C, 0 when neither came."""
        return 0 if self.received is None else 128 + self.received

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self.received is None:
            self.received = signal.Signals(number)
            _say(f"{self.received.name}: stopping after this step; the state will be saved")
        elif number == signal.SIGINT and self._count >= _FORCE_AT:
            raise KeyboardInterrupt
        else:
            _say("still saving; Ctrl-C once more stops without it")


def _say(text: str) -> None:
    # print() is not safe here: the signal may have come in the middle of another print().
    os.write(2, f"\n{text}\n".encode())
