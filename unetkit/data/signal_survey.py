"""What a recipe for signals has to train on: windows of WAV files, found from their headers, or of the built-in tunes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unetkit.data.files import few
from unetkit.data.items import Ignored, Item, Survey, nothing, paired, read_all, threads, verdict
from unetkit.data.sounds import length_at, list_sounds, require_fit, require_resampler
from unetkit.data.wav import SoundHeader, read_frames, read_header
from unetkit.errors import UserError
from unetkit.recipe import schema
from unetkit.shapes import as_sides


def survey_signals(data: schema.Data, *, full: bool) -> Survey:
    """As `survey.survey`, for sources of rank 1. Files are the groups of the split, windows of `data.size` samples its items."""
    source = data.source
    if isinstance(source, schema.Synthetic | schema.Tones):
        count = source.images if isinstance(source, schema.Synthetic) else source.count
        return Survey(items=tuple(Item(f"{i:06}", f"{i:06}") for i in range(count)))
    try:
        files, problems, ignored = _files(source)
    except UserError as error:
        return Survey(problems=(str(error),))
    unmatched = bool(problems)
    channels = _channels(data, files)

    def read(path: Path) -> SoundHeader:
        header = read_header(path)
        require_fit(path, header, channels[path], source.channel)
        if full:
            read_frames(path, header)
        return header

    headers, bad = read_all(channels, read, threads(data.workers), "sound")
    sound = {name: paths for name, paths in files.items() if all(path in headers for path in paths)}
    if not files and not unmatched:
        problems.append(nothing(source, ignored, "WAV file"))
    elif bad:
        problems += verdict(data, bad, len(headers) + len(bad))
        if not sound:
            problems.append("nothing is left that can be read")
    problems += _file_problems(sound, headers, source.rate)
    items = tuple(item for name, paths in sound.items() for item in windows(name, paths, headers, source.rate, as_sides(data.size, 1)[0]))
    return Survey(items=items, ignored=ignored, bad=bad, problems=tuple(problems), headers=headers)


def windows(name: str, paths: tuple[Path, ...], headers: Mapping[Path, SoundHeader], rate: int, size: int) -> list[Item]:
    """The windows of a file (or pair of files), end to end. What is left behind the last belongs to it: training moves windows."""
    length = min(length_at(headers[path], rate) for path in paths)
    return [Item(f"{name}#{number}", name, paths, number * size) for number in range(max(1, length // size))]


def _files(source: schema.Sound | schema.SoundPairs) -> tuple[dict[str, tuple[Path, ...]], list[str], Ignored]:
    if isinstance(source, schema.Sound):
        listing = list_sounds(source.path, "data.source.path")
        return {name: (path,) for name, path in listing.files.items()}, [], listing.ignored
    inputs, targets = list_sounds(source.inputs, "data.source.inputs"), list_sounds(source.targets, "data.source.targets")
    pairs, problems, ignored = paired(source, inputs, targets)
    return dict(pairs), problems, ignored


def _channels(data: schema.Data, files: Mapping[str, tuple[Path, ...]]) -> dict[Path, int]:
    """How many channels each file should give."""
    members = (data.input_channels, data.target_channels)
    return {path: members[number] for paths in files.values() for number, path in enumerate(paths)}


def _file_problems(sound: Mapping[str, tuple[Path, ...]], headers: Mapping[Path, SoundHeader], rate: int) -> list[str]:
    problems = []
    for path, header in headers.items():
        try:
            require_resampler(path, header, rate)
        except UserError as error:
            problems.append(str(error))
            break
    unequal = [paths for paths in sound.values() if len({length_at(headers[path], rate) for path in paths}) > 1]
    if unequal:
        shown = few(" and ".join(f"{path} ({length_at(headers[path], rate):,} samples)" for path in paths) for paths in unequal)
        problems.append(f"members of a pair differ in length: {shown}")
    return problems
