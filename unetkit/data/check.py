"""`unetkit data check`: reads every file of a recipe's data and says what will be trained on, and what will not."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Any

from unetkit.data import memory
from unetkit.data.files import few
from unetkit.data.image_samples import kept_bytes
from unetkit.data.items import Survey
from unetkit.data.memory import in_words
from unetkit.data.signal_samples import SoundSource
from unetkit.data.sounds import length_at
from unetkit.data.split import divide
from unetkit.data.survey import survey
from unetkit.errors import UserError
from unetkit.recipe import schema
from unetkit.shapes import as_sides


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found. Sizes are of all files that can be read: (width, height) in pixels, upright, or (samples,) at `rate`."""

    source: str
    pairs: int
    train: int
    validation: int
    ignored: dict[str, tuple[str, ...]]  # names by reason
    bad: dict[str, str]  # reason by file
    problems: tuple[str, ...]  # what forbids training
    notes: tuple[str, ...]  # what one may want to know
    smallest: tuple[int, ...] | None
    largest: tuple[int, ...] | None
    modes: dict[str, int]
    formats: dict[str, int]
    cache_bytes: int  # what `cache: memory` takes
    rate: int | None = None  # samples per second of the windows that the pairs are, for sound
    window: int | None = None  # their length in samples

    @property
    def ok(self) -> bool:
        """Whether training may begin."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The fields and `ok`, ready for JSON."""
        return {"ok": self.ok, **dataclasses.asdict(self)}

    def lines(self) -> list[str]:
        """The report in words, one fact per line."""
        pairs = f"{self.pairs:,} {'pair' if self.rate is None else 'window'}{'s' * (self.pairs != 1)}"
        if self.rate and self.window:
            pairs += f" of {self.window:,} samples ({self.window / self.rate:.3g} s)"
        lines = [f"{self.source}: {pairs}, {self.train:,} for training and {self.validation:,} for validation"]
        if self.smallest and self.largest:
            smallest, largest = (self._sized(size) for size in (self.smallest, self.largest))
            by_area = " (by area)" if len(self.smallest) == 2 else ""
            lines.append(f"sizes: all {smallest}" if self.smallest == self.largest else f"sizes: {smallest} to {largest}{by_area}")
            lines.append(f"files: {_counts(self.formats)}; modes: {_counts(self.modes)}")
        lines += self.warnings()
        if self.pairs:
            lines.append(f"data.cache: memory would take {in_words(self.cache_bytes)}")
        return lines + [f"problem: {problem}" for problem in self.problems]

    def _sized(self, size: tuple[int, ...]) -> str:
        return " x ".join(map(str, size)) if self.rate is None else f"{size[0] / self.rate:.3g} s"

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
    rate = getattr(data.source, "rate", None)
    if rate is None:
        sizes = sorted(((h.width, h.height) for h in headers), key=lambda size: (size[0] * size[1], size))
        deep = any(header.bits == 16 for header in headers)
        cache_bytes = kept_bytes(data, len(train) + len(validation), 4 if deep else 1) if data.source.rank == 2 else 0
        notes = _notes(data, found) if data.source.rank == 2 else ()
    else:
        sizes = sorted((length_at(header, rate),) for header in headers)
        cache_bytes = SoundSource(data, found.items, found.headers).bytes() if headers else 0
        notes = _sound_notes(data, found, rate)
    return Report(
        source=data.source.kind,
        pairs=len(found.items),
        train=len(train),
        validation=len(validation),
        ignored=found.ignored,
        bad=found.bad,
        problems=(*found.problems, *_cache_problem(data, cache_bytes)),
        notes=notes,
        smallest=sizes[0] if sizes else None,
        largest=sizes[-1] if sizes else None,
        modes=dict(Counter(header.mode for header in headers).most_common()),
        formats=dict(Counter(header.format for header in headers).most_common()),
        cache_bytes=cache_bytes,
        rate=rate,
        window=None if rate is None else as_sides(data.size, 1)[0],
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


def _sound_notes(data: schema.Data, found: Survey, rate: int) -> tuple[str, ...]:
    other = [str(path) for path, header in found.headers.items() if header.rate != rate]
    short = [str(path) for path, header in found.headers.items() if length_at(header, rate) < as_sides(data.size, 1)[0]]
    notes = []
    if other:
        notes.append(f"resampled to {rate:,} Hz: {len(other):,} ({few(other)})")
    if short:
        notes.append(f"shorter than data.size, will stand in silence: {len(short):,} ({few(short)})")
    return tuple(notes)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
