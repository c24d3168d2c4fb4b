"""What may be changed in a recipe beside its batch: the axes of a search, and what may make fit what does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from unetkit.tpu.packing_plan import Packing, candidates
from unetkit.tpu.tiles import SUBLANES

Change = Callable[[Any], Any]
"""Recipe -> recipe."""


def changed(recipe: Any, **training: Any) -> Any:
    """The recipe with other keys of `training`."""
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, **training))


def axes(recipe: Any) -> Iterator[Change]:
    """Changes that `tpu.tune` allows, each to be made to what the ones before it left; the lowering comes after them (`plans`)."""
    allowed, training = recipe.tpu.tune, recipe.training
    if allowed.precision and training.precision == "float32":
        yield lambda r: changed(r, precision="mixed_bfloat16")
    if allowed.remat and training.remat == "none":
        yield lambda r: changed(r, remat="blocks")
    if allowed.accumulate:
        for times in (2, 4):
            yield lambda r, times=times: changed(r, accumulate=times * training.accumulate)


def plans(recipe: Any) -> list[Packing]:
    """Packings to try in place of the recipe's own, `()` for plain: few, since each is compiled for each batch."""
    own = tuple(map(tuple, recipe.model.packing)) if recipe.model.lowering == "packed" else ()
    return [plan for plan in ((), *candidates(recipe)) if plan != own]


def smaller(recipe: Any, replicas: int) -> Iterator[tuple[str, Any, int]]:
    """(what, recipe, global batch): changes that may make 8 images per replica fit, or take fewer."""
    training = recipe.training
    unit = replicas * training.accumulate
    smallest, half = unit * SUBLANES, changed(recipe, precision="mixed_bfloat16")
    if training.precision == "float32":
        yield "training.precision: mixed_bfloat16", half, smallest
    if training.remat == "none":
        yield "training.remat: blocks", changed(recipe, remat="blocks"), smallest
        if training.precision == "float32":
            yield "mixed_bfloat16 and remat: blocks", changed(half, remat="blocks"), smallest
    for rows in (4, 2, 1):
        yield f"training.batch: {rows * unit}, {rows} per replica (padded where the batch lies in rows of 8)", recipe, rows * unit
        times = SUBLANES // rows * training.accumulate
        text = f"training.accumulate: {times}, the batch of {smallest} in micro-batches of {rows} per replica"
        yield text, changed(recipe, accumulate=times), smallest
    sides = recipe.data.size if isinstance(recipe.data.size, tuple) else (recipe.data.size,)
    if all(side % 2 == 0 for side in sides):
        size = tuple(side // 2 for side in sides)
        halved = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, size=size if len(size) > 1 else size[0]))
        yield f"data.size: {' x '.join(map(str, size))}", halved, smallest
