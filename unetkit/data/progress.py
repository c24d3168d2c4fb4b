"""A progress line for work that turns out to take long."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
AFTER_SECONDS = 2.0


def watched(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Passes the items through; from two seconds on, shows on standard error how many have come."""
    began = time.monotonic()
    items = iter(items)
    done = 0
    for item in items:
        yield item
        done += 1
        if time.monotonic() - began > AFTER_SECONDS:
            break
    else:
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, completed=done)
        for item in items:
            yield item
            progress.advance(task)
