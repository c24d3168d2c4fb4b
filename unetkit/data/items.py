"""What a recipe's data consist of, for images and signals alike: items, what was found beside them, and what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from unetkit.data.files import BadFile, Listing, few, match
from unetkit.data.progress import watched
from unetkit.recipe import schema

Header = TypeVar("Header")
Ignored = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Item:
    """One pair. Its files are one and the same but for pairs of files; the built-in pairs have none."""

    name: str
    group: str  # items of one group are never on both sides of the split
    files: tuple[Path, ...] = ()
    first: int = 0  # of a window of sound: its first sample, at the recipe's rate


@dataclass(frozen=True, kw_only=True)
class Survey:
    """`items` can be used; `ignored` names what is left out, by reason; a non-empty `problems` forbids training.

    `headers` are those of `decode` for images and of `wav` for sound.
    """

    items: tuple[Item, ...] = ()
    ignored: Ignored = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    headers: dict[Path, Any] = field(default_factory=dict)


def threads(asked: int) -> int:
    """Reading threads: as many as asked, or one per core this process may use, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return asked or min(16, cores)


def read_all(paths: Iterable[Path], read: Callable[[Path], Header], workers: int, what: str) -> tuple[dict[Path, Header], dict[str, str]]:
    """What `read` returns of each file, and why the others cannot be read: the reasons of `BadFile`."""

    def attempt(path: Path) -> Header | BadFile:
        try:
            return read(path)
        except BadFile as error:
            return error

    paths = list(dict.fromkeys(paths))
    headers: dict[Path, Header] = {}
    bad: dict[str, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        for path, result in zip(paths, watched(pool.map(attempt, paths), len(paths), f"reading {what}"), strict=True):
            if isinstance(result, BadFile):
                bad[str(path)] = result.reason
            else:
                headers[path] = result
    return headers, bad


def paired(
    source: schema.Pairs | schema.SoundPairs, inputs: Listing, targets: Listing
) -> tuple[dict[str, tuple[Path, Path]], list[str], Ignored]:
    """(files by stem, problems, what is ignored) of two folders."""
    pairs, problems, alone = match(inputs, targets)
    ignored: Ignored = {}
    for listing in (inputs, targets):
        for reason, names in listing.ignored.items():
            ignored[f"{reason}, in {listing.folder}"] = names
    if source.unmatched == "skip":
        ignored |= alone
    elif pairs or alone:
        problems += [f"{len(stems):,} without a partner, {side}: {few(stems)}" for side, stems in alone.items()]
        if alone:
            problems.append("give each its partner, or set data.source.unmatched: skip")
    return pairs, problems, ignored


def nothing(source: Any, ignored: Ignored, what: str) -> str:
    """The problem that there is no file of a kind, and what there is."""
    two = isinstance(source, schema.Pairs | schema.SoundPairs)
    where = f"{source.inputs} and {source.targets}" if two else source.path
    there = "; ".join(f"{len(names)} {reason}: {few(names)}" for reason, names in ignored.items())
    return f"data.source: no {f'pair of {what}s' if two else what} in {where}" + (f" ({there})" if there else ", which holds no files")


def verdict(data: schema.Data, bad: dict[str, str], files: int) -> list[str]:
    """What `on_bad` and `max_bad` make of files that cannot be read."""
    if data.on_bad == "error":
        listed = few(f"{path}: {reason}" for path, reason in bad.items())
        return [f"{len(bad):,} of {files:,} files cannot be read: {listed}; mend or remove them, or set data.on_bad: skip"]
    if len(bad) > data.max_bad * files:
        share, listed = len(bad) / files, few(bad)
        return [f"{len(bad):,} of {files:,} files ({share:.1%}) cannot be read, above data.max_bad: {data.max_bad}: {listed}"]
    return []
