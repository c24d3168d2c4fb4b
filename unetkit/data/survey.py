"""What a recipe's data consist of, found before anything is trained: pairs, ignored files, bad files, problems."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from unetkit.data import builtin
from unetkit.data.decode import MODE, BadImage, Header, read_header, read_picture
from unetkit.data.files import few, list_images, match
from unetkit.data.progress import watched
from unetkit.errors import UserError
from unetkit.recipe import schema


@dataclass(frozen=True)
class Item:
    """One pair. Its files are one and the same but for `pairs`; the built-in pairs have none."""

    name: str
    group: str  # items of one group are never on both sides of the split
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Survey:
    """`items` can be used; `ignored` names what is left out, by reason; a non-empty `problems` forbids training."""

    items: tuple[Item, ...] = ()
    ignored: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    headers: dict[Path, Header] = field(default_factory=dict)


def threads(asked: int) -> int:
    """Reading threads: as many as asked, or one per core this process may use, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return asked or min(16, cores)


def survey(data: schema.Data, *, full: bool) -> Survey:
    """Lists the source and reads every file: its header, or with `full` all of it."""
    wrong = _channel_problems(data)
    if isinstance(data.source, schema.Emoji):
        return Survey(items=tuple(Item(name, builtin.figure(name)) for name in builtin.names()), problems=tuple(wrong))
    if isinstance(data.source, schema.Synthetic):
        return Survey(items=tuple(Item(f"{i:06}", f"{i:06}") for i in range(data.source.images)), problems=tuple(wrong))
    try:
        items, ignored, problems = _items(data.source)
    except UserError as error:  # a missing folder: nothing else can be said
        return Survey(problems=(*wrong, str(error)))
    unmatched = bool(problems)
    problems = wrong + problems
    headers, bad = _read(items, full, threads(data.workers))
    sound = [item for item in items if all(path in headers for path in item.files)]
    if not items and not unmatched:  # else it has been said which files are there and why none is used
        problems.append(_nothing(data.source, ignored))
    elif bad:
        problems += _verdict(data, bad, len(headers) + len(bad))
        if not sound:
            problems.append("no pair is left whose files can be read")
    problems += _shape_problems(data.source, sound, headers)
    return Survey(items=tuple(sound), ignored=ignored, bad=bad, problems=tuple(problems), headers=headers)


def _channel_problems(data: schema.Data) -> list[str]:
    counts = {"data.input_channels": data.input_channels, "data.target_channels": data.target_channels}
    problems = [f"{key}: {count} has no meaning; 1 is grey, 3 RGB, 4 RGBA" for key, count in counts.items() if count not in MODE]
    if isinstance(data.source, schema.Folder) and data.source.task.kind == "colorize" and data.target_channels == 1:
        problems.append("data.target_channels: 1 leaves data.source.task: colorize no colour to learn; use 3")
    return problems


def _items(source: schema.Folder | schema.Pairs | schema.SideBySide) -> tuple[list[Item], dict[str, tuple[str, ...]], list[str]]:
    if not isinstance(source, schema.Pairs):
        listing = list_images(source.path, "data.source.path")
        return [Item(name, name, (path,)) for name, path in listing.images.items()], listing.ignored, []
    inputs = list_images(source.inputs, "data.source.inputs")
    targets = list_images(source.targets, "data.source.targets")
    pairs, problems, alone = match(inputs, targets)
    ignored: dict[str, tuple[str, ...]] = {}
    for listing in (inputs, targets):
        for reason, names in listing.ignored.items():
            ignored[f"{reason}, in {listing.folder}"] = names
    if source.unmatched == "skip":
        ignored |= alone
    elif pairs or alone:
        problems += [f"{len(stems):,} without a partner, {side}: {few(stems)}" for side, stems in alone.items()]
        if alone:
            problems.append("give each its partner, or set data.source.unmatched: skip")
    return [Item(stem, stem, files) for stem, files in pairs.items()], ignored, problems


def _read(items: list[Item], full: bool, workers: int) -> tuple[dict[Path, Header], dict[str, str]]:
    """Headers of the files that can be read, and why the others cannot."""
    read: Callable[[Path], Header] = (lambda path: read_picture(path).header) if full else read_header

    def attempt(path: Path) -> Header | BadImage:
        try:
            return read(path)
        except BadImage as error:
            return error

    paths = list(dict.fromkeys(path for item in items for path in item.files))
    headers: dict[Path, Header] = {}
    bad: dict[str, str] = {}
    with ThreadPoolExecutor(workers) as pool:
        for path, result in zip(paths, watched(pool.map(attempt, paths), len(paths), "reading images"), strict=True):
            if isinstance(result, BadImage):
                bad[str(path)] = result.reason
            else:
                headers[path] = result
    return headers, bad


def _nothing(source: schema.Folder | schema.Pairs | schema.SideBySide, ignored: dict[str, tuple[str, ...]]) -> str:
    where = f"{source.inputs} and {source.targets}" if isinstance(source, schema.Pairs) else source.path
    there = "; ".join(f"{len(names)} {reason}: {few(names)}" for reason, names in ignored.items())
    what = "no pair of images" if isinstance(source, schema.Pairs) else "no image"
    return f"data.source: {what} in {where}" + (f" ({there})" if there else ", which holds no files")


def _verdict(data: schema.Data, bad: dict[str, str], files: int) -> list[str]:
    if data.on_bad == "error":
        listed = few(f"{path}: {reason}" for path, reason in bad.items())
        return [f"{len(bad):,} of {files:,} files cannot be read: {listed}; mend or remove them, or set data.on_bad: skip"]
    if len(bad) > data.max_bad * files:
        share, listed = len(bad) / files, few(bad)
        return [f"{len(bad):,} of {files:,} files ({share:.1%}) cannot be read, above data.max_bad: {data.max_bad}: {listed}"]
    return []


def _shape_problems(source: schema.Folder | schema.Pairs | schema.SideBySide, items: list[Item], headers: dict[Path, Header]) -> list[str]:
    def sized(path: Path) -> str:
        return f"{path} ({headers[path].width} x {headers[path].height})"

    if isinstance(source, schema.SideBySide):
        odd = [item.files[0] for item in items if headers[item.files[0]].width % 2]
        return [f"an odd width cannot be halved: {few(map(sized, odd))}"] if odd else []
    unequal = [item for item in items if len({(headers[path].width, headers[path].height) for path in item.files}) > 1]
    if not unequal:
        return []
    return [f"members of a pair differ in size: {few(' and '.join(map(sized, item.files)) for item in unequal)}"]
