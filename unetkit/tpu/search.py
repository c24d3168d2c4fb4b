"""Searches the batch per replica that makes the most images per second and fits, with few questions.

A pure function over `ask`, which answers about one batch per replica: `memory` in seconds, `full` in minutes. So what fits
is bracketed first, by memory alone, and only the most promising few are compiled to the end.

Memory is taken to grow with the batch within a layout, and is interpolated there. Below `LANES_FROM` images per replica the
compiler puts the batch into the rows of a tile (8), from there on it may put it into the lanes (128), which can need *less*:
the two ranges are bracketed apart. No size that was seen to fail is ever chosen, and no choice rests on interpolation.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from unetkit.shapes import round_up
from unetkit.tpu.answer import Answer, Hbm, Padding, Step
from unetkit.tpu.ask import Stage
from unetkit.tpu.tiles import LANES, SUBLANES

LANES_FROM = 64
"""Images per replica from which the compiler may lay the batch out in the lanes."""

MARGIN = 0.05
"""Share of the usable HBM that a choice leaves free, where no limit is given: the program's own code lies there too."""

COMPILES = 5
SLACK = 0.02
"""A batch is compiled if it may be this much faster than the best one known; estimates are no better than that."""

UNTRIED = 1.25
"""How much faster than expected a layout may be of which nothing is compiled yet."""

LARGEST = 2**16

STEPS = 16
"""Batches looked at from one power of two to the next, above STEPS * 16: closer ones are as fast, and each is estimated."""

Ask = Callable[[int, Stage], Answer]
"""(images per replica, stage) -> what is known about them."""

Expected = Callable[[int], float]
"""Images per replica -> images per second, as far as can be told without asking; only ratios are used."""


@dataclass
class Found:
    """What a search knows: `answers` by images per replica, the `best` of them, and how it ended.

    `compiles` counts complete compilations, those that were refused for their size not among them.
    """

    answers: dict[int, Answer] = field(default_factory=dict)
    compiles: int = 0
    asked: int = 0
    seconds: float = 0.0
    ended: Literal["complete", "interrupted", "out of time"] = "complete"
    share: float = 1.0 - MARGIN

    @property
    def best(self) -> Answer | None:
        """The fastest that was compiled and fits with its margin, the smaller of equals; None where there is none."""
        timed = [a for _, a in sorted(self.answers.items()) if fits(a, self.share) and a.step.images_per_second is not None]
        return max(timed, key=lambda a: a.step.images_per_second or 0.0, default=None)


def fits(answer: Answer, share: float = 1.0) -> bool:
    """Whether it fits into this share of the usable HBM. What is not known to fit does not."""
    peak, limit = answer.hbm.peak_bytes, answer.hbm.limit_bytes
    return bool(answer.fits) and (peak is None or limit is None or peak <= share * limit)


def fill(batch: int) -> float:
    """Share of the tiles that a batch per replica fills: the expectation where nothing else is known."""
    return batch / round_up(batch, LANES if batch >= LANES_FROM else SUBLANES)


def search(
    ask: Ask,
    *,
    expected: Expected = fill,
    start: int = 2 * SUBLANES,
    most: int | None = None,
    share: float = 1.0 - MARGIN,
    compiles: int = COMPILES,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """The fastest multiple of 8 images per replica that fits.

    Args:
        ask: about one batch per replica.
        expected: how fast each may be; corrected by what was compiled.
        start: where to begin to look for what fits.
        most: largest batch per replica (None: what fits decides).
        share: of the usable HBM, that may be taken.
        compiles: how many complete compilations at most.
        seconds: after which no further question is begun (None: no limit).
        clock: what the time is.
    """
    return _Search(ask, expected, start, most or LARGEST, share, compiles, seconds, clock).run()


def multiples(low: int, high: int, known: Iterable[int] = ()) -> list[int]:
    """Multiples of 8 in [low, high], `high` and those `known` among them: all while they are small, then a sixteenth apart."""
    found, batch = {high, *(b for b in known if low <= b <= high)}, low
    while batch < high:
        found.add(batch)
        step = max(SUBLANES, 2 ** (batch.bit_length() - 1) // STEPS)
        batch = (batch // step + 1) * step
    return sorted(found)


class _Search:
    def __init__(self, ask, expected, start, most, share, compiles, seconds, clock) -> None:
        self.ask, self.expected, self.start, self.most, self.compiles, self.clock = ask, expected, start, most, compiles, clock
        self.began = clock()
        self.ends = None if seconds is None else self.began + seconds
        self.found = Found(share=share)

    def run(self) -> Found:
        found = self.found
        try:
            fitting = self.bracket()
            while found.compiles < self.compiles and (batch := self.promising(fitting)) is not None:
                answer = self.tell(batch, "full")
                found.compiles += answer.step.estimated_ms is not None and answer.source == "compiled"
        except KeyboardInterrupt:
            found.ended = "interrupted"
        except _OutOfTime:
            found.ended = "out of time"
        found.seconds = self.clock() - self.began
        return found

    # --- what fits

    def bracket(self) -> list[int]:
        """The batches that fit; those between two that were asked are interpolated."""
        ranges = [(SUBLANES, self.last(SUBLANES, min(LANES_FROM - SUBLANES, self.most), self.start))]
        if first := next((b for b in (LANES_FROM, LANES) if b <= self.most and self.fits(b)), None):
            ranges.append((first, self.last(first, self.most, LANES)))
        batches = [b for low, high in ranges if high for b in multiples(low, high, known=self.found.answers)]
        for batch in batches:
            if batch not in self.found.answers:
                self.found.answers[batch] = self.between(batch)
        return [b for b in batches if fits(self.found.answers[b], self.found.share)]

    def last(self, low: int, high: int, start: int) -> int | None:
        """The largest multiple of 8 in [low, high] that fits, taking memory to grow with the batch; None where `low` does not."""
        if high < low:
            return None
        good, bad = low - SUBLANES, high // SUBLANES * SUBLANES + SUBLANES
        batch, step = min(max(start // SUBLANES * SUBLANES, low), bad - SUBLANES), SUBLANES
        while bad - good > SUBLANES:
            if self.fits(batch):
                good = batch
                batch = min(good + step, (good + bad) // 2 if bad <= high else good + step)
            else:
                bad = batch
                batch = max(bad - step, (good + bad) // 2)
            step *= 2
            batch = min(max(batch // SUBLANES * SUBLANES, good + SUBLANES), bad - SUBLANES)
        return good if good >= low else None

    def fits(self, batch: int) -> bool:
        known = self.found.answers.get(batch)
        return fits(known or self.tell(batch, "memory"), self.found.share)

    def tell(self, batch: int, stage: Stage) -> Answer:
        if self.ends is not None and self.clock() >= self.ends:
            raise _OutOfTime
        self.found.asked += 1
        self.found.answers[batch] = answer = self.ask(batch, stage)
        return answer

    def between(self, batch: int) -> Answer:
        """Memory between the nearest batches of the same layout that were asked and fit."""
        known = {b: a for b, a in self.found.answers.items() if a.source != "interpolated" and layout(b) == layout(batch) and a.fits}
        above = min((b for b in known if b > batch), default=None)
        below = max((b for b in known if b < batch), default=None)
        near = known[above if above is not None else below]
        peak = near.hbm.peak_bytes
        if above is not None and peak is not None:
            low = (below, known[below].hbm.peak_bytes) if below is not None else (0, near.hbm.argument_bytes or 0)
            peak = round(low[1] + (peak - low[1]) * (batch - low[0]) / (above - low[0])) if low[1] is not None else peak
        return dataclasses.replace(
            near,
            source="interpolated",
            global_batch=(near.global_batch or 0) // (near.per_core_batch or 1) * batch,
            per_core_batch=batch,
            hbm=Hbm(limit_bytes=near.hbm.limit_bytes, peak_bytes=peak),
            padding=Padding(),
            step=Step(),
            categories=(), operations=(), levels=(), buffers=(), curve=None, notes=(), fingerprint=None,
        )  # fmt: skip

    # --- what is fast

    def promising(self, fitting: list[int]) -> int | None:
        """The batch to compile next: the one that may be fastest, if it may be faster than the best so far."""
        answers = self.found.answers
        left = [b for b in fitting if answers[b].step.images_per_second is None and answers[b].source in ("compiled", "interpolated")]
        timed = {b: a.step.images_per_second for b, a in answers.items() if a.step.images_per_second}
        if not left:
            return None
        best = self.found.best
        chances = {b: self.expected(b) * self.correction(b, timed) for b in left}
        batch = max(left, key=lambda b: (chances[b], b))
        if best is not None and chances[batch] * (1.0 + SLACK) <= (best.step.images_per_second or 0.0):
            return None
        return batch

    def correction(self, batch: int, timed: dict[int, float]) -> float:
        """Compiled over expected speed, interpolated between the nearest compiled batches of the same layout."""
        if not timed:
            return 1.0
        ratios = {b: speed / self.expected(b) for b, speed in timed.items()}
        same = {b: ratio for b, ratio in ratios.items() if layout(b) == layout(batch)}
        if not same:
            return UNTRIED * max(ratios.values())
        above = min((b for b in same if b > batch), default=None)
        below = max((b for b in same if b < batch), default=None)
        if above is None or below is None:
            return same[below if above is None else above]
        return same[below] + (same[above] - same[below]) * (batch - below) / (above - below)


class _OutOfTime(Exception):
    """The time that was given is over."""


def layout(batch: int) -> str:
    """Where the compiler may put the batch."""
    return "rows" if batch < LANES_FROM else "lanes"
