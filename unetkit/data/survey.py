"""What a recipe's data consist of, found before anything is trained: pairs, ignored files, bad files, problems."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unetkit.data import builtin
from unetkit.data.decode import MODE, Header, read_header, read_picture
from unetkit.data.files import few, list_images
from unetkit.data.items import Ignored, Item, Survey, nothing, paired, read_all, threads, verdict
from unetkit.data.signal_survey import survey_signals
from unetkit.errors import UserError
from unetkit.recipe import schema


def survey(data: schema.Data, *, full: bool) -> Survey:
    """Lists the source and reads every file: its header, or with `full` all of it."""
    if data.source.rank == 1:
        return survey_signals(data, full=full)
    wrong = _channel_problems(data)
    if isinstance(data.source, schema.Emoji):
        return Survey(items=tuple(Item(name, builtin.figure(name)) for name in builtin.names()), problems=tuple(wrong))
    if isinstance(data.source, schema.Synthetic):
        return Survey(items=tuple(Item(f"{i:06}", f"{i:06}") for i in range(data.source.images)), problems=tuple(wrong))
    try:
        items, problems, ignored = _items(data.source)
    except UserError as error:  # a missing folder: nothing else can be said
        return Survey(problems=(*wrong, str(error)))
    unmatched = bool(problems)
    problems = wrong + problems
    read: Callable[[Path], Header] = (lambda path: read_picture(path).header) if full else read_header
    headers, bad = read_all((path for item in items for path in item.files), read, threads(data.workers), "images")
    sound = [item for item in items if all(path in headers for path in item.files)]
    if not items and not unmatched:  # else it has been said which files are there and why none is used
        problems.append(nothing(data.source, ignored, "image"))
    elif bad:
        problems += verdict(data, bad, len(headers) + len(bad))
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


def _items(source: schema.Folder | schema.Pairs | schema.SideBySide) -> tuple[list[Item], list[str], Ignored]:
    if not isinstance(source, schema.Pairs):
        listing = list_images(source.path, "data.source.path")
        return [Item(name, name, (path,)) for name, path in listing.files.items()], [], listing.ignored
    inputs = list_images(source.inputs, "data.source.inputs")
    targets = list_images(source.targets, "data.source.targets")
    pairs, problems, ignored = paired(source, inputs, targets)
    return [Item(stem, stem, files) for stem, files in pairs.items()], problems, ignored


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
