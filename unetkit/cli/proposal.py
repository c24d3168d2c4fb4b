"""A first recipe for two folders of the user's own images: what the files say, and the size, channels and length that follow."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from unetkit import shapes
from unetkit.data.check import report
from unetkit.data.decode import Header
from unetkit.data.files import few
from unetkit.data.survey import survey
from unetkit.errors import UserError
from unetkit.recipe import Recipe, read
from unetkit.recipe.checks import halvings
from unetkit.recipe.schema import Data, Pairs, UNet

GREY_MODES = ("1", "L", "LA", "La", "I", "F")  # and I;16 in its byte orders
LONGEST_SHORT_SIDE = 256  # pixels; what a first try on a laptop can carry
LARGEST_BATCH = 16
LEAST_IMAGES, MOST_IMAGES = 20_000, 400_000
PASSES = 100
MULTIPLE = 2 ** halvings(UNet())  # of the sides, for the network that a recipe has by default


class Proposal(NamedTuple):
    """A recipe as text with comments, the same as an object, and what the user should know about the folders."""

    text: str
    recipe: Recipe
    notes: tuple[str, ...]


def propose(inputs: str, targets: str, name: str) -> Proposal:
    """Proposes a recipe for the pairs of files that have the same stem in two folders. Problems of single files are notes.

    Raises:
        UserError: a folder is missing, or nothing pairs.
    """
    data = Data(source=Pairs(inputs=inputs, targets=targets))
    found = survey(data, full=False)
    if not found.items:
        raise UserError("\n".join(found.problems))
    left, right = ([found.headers[item.files[side]] for item in found.items] for side in (0, 1))
    data = dataclasses.replace(
        data,
        size=_size(left),
        input_channels=1 if all(map(_is_grey, left)) else 3,
        target_channels=1 if all(map(_is_grey, right)) else 3,
    )
    facts = report(data, found)
    text = _text(name, data, facts.pairs, facts.train, left)
    return Proposal(text, read(text), tuple(line for line in facts.lines() if not line.startswith("data.cache")))


def _text(name: str, data: Data, pairs: int, training: int, headers: Sequence[Header]) -> str:
    images = min(max(PASSES * training, LEAST_IMAGES), MOST_IMAGES)
    batch = 2 ** (min(LARGEST_BATCH, training).bit_length() - 1)
    sizes = sorted({(header.width, header.height) for header in headers})
    return f"""# A first recipe for {pairs:,} pairs. `unetkit recipe show FILE` prints every key that could be here.
name: {_quoted(name)}

data:
  source:
    kind: pairs
    inputs: {_quoted(data.source.inputs)}
    targets: {_quoted(data.source.targets)}
  size: {data.size if isinstance(data.size, int) else list(data.size)}  # of {few(f"{w} x {h}" for w, h in sizes)}; multiples of {MULTIPLE}
  input_channels: {data.input_channels}
  target_channels: {data.target_channels}
  augment:
    flip: horizontal  # none, if left and right mean something in these images

optimizer:
  name: adamw
  learning_rate: 1e-3
  schedule: cosine
  warmup_images: {images // 50}
  clip_norm: 1.0

training:
  images: {images}  # {images / training:.0f} times each
  batch: {batch}
"""


def _size(headers: Sequence[Header]) -> int | tuple[int, int]:
    """The training size: the images' own where they have one in common, else a square; the short side at most 256, halving evenly."""
    sides = {(header.height, header.width) for header in headers}
    if len(sides) == 1:
        height, width = sides.pop()
    else:
        height = width = int(statistics.median(min(header.height, header.width) for header in headers))
    scale = min(1.0, LONGEST_SHORT_SIDE / min(height, width))
    high, wide = (shapes.nearest_multiples(int(side * scale), MULTIPLE)[0] for side in (height, width))
    return high if high == wide else (high, wide)


def _is_grey(header: Header) -> bool:
    return header.mode in GREY_MODES or header.mode.startswith("I;16")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # YAML reads JSON's strings
