"""`unetkit data check`: reads every file of a recipe's data and says what will be trained on, and what will not."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any

from unetkit.data import memory
from unetkit.data.files import few
from unetkit.data.memory import in_words
from unetkit.data.split import divide, kept_bytes
from unetkit.data.survey import Survey, survey
from unetkit.errors import UserError
from unetkit.recipe import schema


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found. Sizes are (width, height) in pixels, upright, of all files that can be read."""

    source: str
    pairs: int
    train: int
    validation: int
    ignored: dict[str, tuple[str, ...]]  # names by reason
    bad: dict[str, str]  # reason by file
    problems: tuple[str, ...]  # what forbids training
    notes: tuple[str, ...]  # what one may want to know
    smallest: tuple[int, int] | None
    largest: tuple[int, int] | None
    modes: dict[str, int]
    formats: dict[str, int]
    cache_bytes: int  # what `cache: memory` takes

    @property
    def ok(self) -> bool:
        """Whether training may begin."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The fields and `ok`, ready for JSON."""
        return {"ok": self.ok, **dataclasses.asdict(self)}

    def lines(self) -> list[str]:
        """The report in words, one fact per line."""
        pairs = f"{self.pairs:,} pair{'s' * (self.pairs != 1)}"
        lines = [f"{self.source}: {pairs}, {self.train:,} for training and {self.validation:,} for validation"]
        if self.smallest and self.largest:
            few_sizes = self.smallest == self.largest
            (w, h), (to_w, to_h) = self.smallest, self.largest
            lines.append(f"sizes: all {w} x {h}" if few_sizes else f"sizes: {w} x {h} to {to_w} x {to_h} (by area)")
            lines.append(f"files: {_counts(self.formats)}; modes: {_counts(self.modes)}")
        lines += self.warnings()
        if self.pairs:
            lines.append(f"data.cache: memory would take {in_words(self.cache_bytes)}")
        return lines + [f"problem: {problem}" for problem in self.problems]

    def warnings(self) -> list[str]:
        """What training should be told: files that are not used and why, and how some are read."""
        lines = [f"ignored, {reason}: {len(names):,} ({few(names)})" for reason, names in self.ignored.items()]
        lines += [f"cannot be read: {path}: {reason}" for path, reason in self.bad.items()]
        return lines + [f"note: {note}" for note in self.notes]


def check(data: schema.Data) -> Report:
    """Reads every file in full. Never raises for what it finds: see `Report.ok`."""
    return report(data, survey(data, full=True))


def report(data: schema.Data, found: Survey) -> Report:
    """Words and numbers for a survey."""
    train, validation = divide(found.items, data.split)
    headers = found.headers.values()
    sizes = sorted(((h.width, h.height) for h in headers), key=lambda size: (size[0] * size[1], size))
    deep = any(header.bits == 16 for header in headers)
    cache_bytes = kept_bytes(data, len(train) + len(validation), 4 if deep else 1)
    return Report(
        source=data.source.kind,
        pairs=len(found.items),
        train=len(train),
        validation=len(validation),
        ignored=found.ignored,
        bad=found.bad,
        problems=(*found.problems, *_cache_problem(data, cache_bytes)),
        notes=_notes(data, found),
        smallest=sizes[0] if sizes else None,
        largest=sizes[-1] if sizes else None,
        modes=dict(Counter(header.mode for header in headers).most_common()),
        formats=dict(Counter(header.format for header in headers).most_common()),
        cache_bytes=cache_bytes,
    )


def _cache_problem(data: schema.Data, cache_bytes: int) -> list[str]:
    if data.cache != "memory":
        return []
    try:
        memory.require(cache_bytes, "data.cache: memory", "use data.cache: none, or a smaller data.size")
    except UserError as error:
        return [str(error)]
    return []


def _notes(data: schema.Data, found: Survey) -> tuple[str, ...]:
    height, width = (data.size, data.size) if isinstance(data.size, int) else data.size
    coarse = [str(path) for path, header in found.headers.items() if header.stored_bits > header.bits]
    small = [str(path) for path, header in found.headers.items() if header.width < width or header.height < height]
    notes = []
    if coarse:
        notes.append(f"16-bit colour TIFF, read with 8 bits: {len(coarse):,} ({few(coarse)})")
    if small and data.resize != "pad":
        notes.append(f"smaller than data.size, will be enlarged: {len(small):,} ({few(small)})")
    return tuple(notes)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
