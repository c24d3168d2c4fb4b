"""Data: where pairs of images come from and how they become batches. Imports neither Keras nor TensorFlow.

from unetkit.data import open_dataset
dataset = open_dataset(recipe.data, recipe.seed)
with dataset.train.batches(16) as batches:
    batch = next(batches)  # {"input": (b, h, w, ci), "target": (b, h, w, co)} or (b, w, c) both, float32 in [-1, 1]
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass

from unetkit import buckets
from unetkit.data.check import Report, report
from unetkit.data.classes import class_numbers, class_problems
from unetkit.data.image_samples import ImageSamples
from unetkit.data.items import Survey
from unetkit.data.loader import Batches, Pass
from unetkit.data.signal_samples import NoiseSource, SignalSamples, SignalSource, SoundSource, TonesSource
from unetkit.data.sources import EmojiSource, FileSource, Source, SyntheticSource
from unetkit.data.split import Samples, Share, Split, divide
from unetkit.data.survey import survey
from unetkit.errors import UserError
from unetkit.recipe import schema

__all__ = ["Batches", "Dataset", "Pass", "Report", "Share", "Split", "open_dataset"]


@dataclass(frozen=True)
class Dataset:
    """Both sides of a recipe's data, and what was found on the way (`report.lines()` belongs into the log)."""

    train: Split
    validation: Split
    report: Report


def open_dataset(data: schema.Data, seed: int = 0) -> Dataset:
    """Finds the pairs, refuses what cannot be trained on, and holds out the validation side.

    The header of every file is read; with `on_bad: skip` every file is read in full, so that the length of an epoch
    is known from the start. The built-in and the synthetic pairs take no reading of files. Folders in buckets (gs://...)
    are copied to the local cache first.

    Raises:
        UserError: every problem at once, with the first few names each; also where `cache: memory` does not fit.
    """
    data = _brought_here(data)
    found = survey(data, full=data.on_bad == "skip")
    problems = [*found.problems, *class_problems(data, found.items)]
    if problems:
        raise UserError("\n".join(problems))
    facts = report(data, found)
    if facts.problems:
        raise UserError("\n".join(facts.problems))
    training, held = divide(found.items, data.split)
    samples = _signals(data, found) if data.source.rank == 1 else _images(data, found)
    sides = []
    for kind, numbers in (("train", training), ("validation", held)):
        names = tuple(found.items[number].name for number in numbers)
        labels = class_numbers(data, [found.items[number] for number in numbers])
        sides.append(Split(kind, names, samples(kind, names, numbers, seed), data, seed, labels))
    return Dataset(*sides, facts)


Make = Callable[[str, tuple[str, ...], list[int], int], Samples]


def _images(data: schema.Data, found: Survey) -> Make:
    source: Source
    if isinstance(data.source, schema.Emoji):
        source = EmojiSource(data)
    elif isinstance(data.source, schema.Synthetic):
        source = SyntheticSource(data)
    else:
        source = FileSource(data, found.items)
    return lambda kind, names, numbers, seed: ImageSamples(kind, source, names, numbers, data, seed)


def _signals(data: schema.Data, found: Survey) -> Make:
    source: SignalSource
    if isinstance(data.source, schema.Tones):
        source = TonesSource(data)
    elif isinstance(data.source, schema.Synthetic):
        source = NoiseSource(data)
    else:
        source = SoundSource(data, found.items, found.headers)
    return lambda kind, names, numbers, seed: SignalSamples(source, names, numbers, data, seed)


def _brought_here(data: schema.Data) -> schema.Data:
    """The same data, with local copies of the folders that are in buckets."""
    folders = {f.name: getattr(data.source, f.name) for f in dataclasses.fields(data.source)}
    local = {name: str(buckets.fetch(path, _say)) for name, path in folders.items() if buckets.is_bucket(path)}
    return dataclasses.replace(data, source=dataclasses.replace(data.source, **local)) if local else data


def _say(text: str) -> None:
    print(text, file=sys.stderr)
