"""Which levels to pack: the plan that the compiler estimates to be fastest, among few; plain where none is faster."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from unetkit.shapes import as_sides, grown_channels
from unetkit.tpu.answer import Answer
from unetkit.tpu.tiles import LANES

MOST_PIXELS = 8
"""Of a block: larger ones spend more of the kernel on zeros than the lanes gain."""

Packing = tuple[tuple[int, ...], ...]


def plan(recipe: Any, chip_name: str | None = None, batch: int | None = None) -> Packing:
    """The packing that the TPU compiler estimates to be fastest for a recipe's training step: `()` where that is plain.

    Plain and up to three plans are compiled, minutes each; answers are cached. Without a compiler the answer is plain.

    Args:
        recipe: an `unetkit.recipe.Recipe`; its own `lowering` and `packing` are left out of account.
        chip_name: as v2-8 (None: the recipe's `tpu.chip`).
        batch: global batch (None: the recipe's).

    Raises:
        UserError: no chip, or a batch that the replicas cannot share.
    """
    plans = [(), *candidates(recipe)]
    return plans[fastest(ask_plans(recipe, plans, chip_name, batch))]


def ask_plans(recipe: Any, plans: Sequence[Packing], chip_name: str | None = None, batch: int | None = None) -> list[Answer]:
    """What the compiler says about the step under each plan; `()` is plain."""
    from unetkit.tpu.inspection import inspect_recipe

    batches = None if batch is None else [batch]
    return [answer for one in plans for answer in inspect_recipe(with_packing(recipe, one), chip_name, batches)]


def fastest(answers: Sequence[Answer]) -> int:
    """Number of the answer with the shortest step; the first, which is plain, unless another was compiled and is faster.

    A plan that fits where plain does not is faster than not at all.
    """
    times = [a.step.estimated_ms if a.source == "compiled" and a.fits and a.step.estimated_ms else float("inf") for a in answers]
    return min(range(len(times)), key=times.__getitem__)


def with_packing(recipe: Any, packing: Packing) -> Any:
    """The recipe with this packing outright."""
    model = dataclasses.replace(recipe.model, lowering="packed" if packing else "plain", packing=tuple(packing))
    return dataclasses.replace(recipe, model=model)


def candidates(recipe: Any) -> list[Packing]:
    """Plans worth compiling: the blocks that fill the lanes, on all levels that have room in them, or on the outer ones only."""
    sides = as_sides(recipe.data.size, getattr(recipe.model, "rank", 2))
    blocks: list[tuple[int, ...]] = []
    for number, channels in enumerate(level_channels(recipe.model)):
        block = filling_block(channels, tuple(side >> number for side in sides))
        if max(block) == 1:
            break
        blocks.append(block)
    return [tuple(blocks[:levels]) for levels in range(len(blocks), 0, -1)][:3]


def level_channels(model: Any) -> Sequence[int]:
    """Channels of each level of a recipe's model, outermost first."""
    if model.preset == "original":
        return grown_channels(model.start_ch, model.depth, model.inc_rate)
    return [level.channels for level in model.levels]


def filling_block(channels: int, image: Sequence[int]) -> tuple[int, ...]:
    """The block that fills the 128 lanes with so many channels: sides are powers of two that divide the image, columns first."""
    block = [1] * len(image)
    growing = list(reversed(range(len(image))))
    while growing:
        axis = growing.pop(0)
        grown = 2 * math.prod(block)
        if grown <= MOST_PIXELS and channels * grown <= LANES and image[axis] % (2 * block[axis]) == 0:
            block[axis] *= 2
            growing.append(axis)
    return tuple(block)
