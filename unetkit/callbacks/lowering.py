"""`lowering: auto`: decided before a network is built, by one function for the trainer and for `inspect`."""

from __future__ import annotations

import os
import sys

from unetkit.callbacks.memory_viewer import ATTACHED
from unetkit.recipe.schema import Recipe
from unetkit.tpu.packing_plan import plan, with_packing


def resolve_lowering(recipe: Recipe, chip: str | None = None, batch: int | None = None) -> Recipe:
    """The recipe with a literal packing, or plain, in place of `lowering: auto`; what was decided, and why, on standard error.

    Args:
        recipe: returned as it is unless its lowering is auto.
        chip: accelerator to decide for, as v2-8 (None: the attached one, or the recipe's where a TPU is to train; else plain).
        batch: global batch to decide for (None: the recipe's).
    """
    if recipe.model.lowering != "auto":
        return recipe
    if chip is None and (os.environ.get(ATTACHED) or recipe.hardware.device == "tpu"):
        chip = recipe.tpu.chip or os.environ.get(ATTACHED)
    if chip is None:
        return _decided(recipe, (), "packing is for TPUs, and none is attached")
    from unetkit.tpu.environment import CompilerMissing, find_interpreter

    try:
        find_interpreter()
    except CompilerMissing as missing:
        return _decided(recipe, (), f"only the compiler knows whether packing is faster. {missing}")
    return _decided(recipe, plan(recipe, chip, batch), f"the fastest by the estimate of the compiler for {chip}")


def _decided(recipe: Recipe, packing: tuple[tuple[int, ...], ...], why: str) -> Recipe:
    shown = f"packed {[list(block) for block in packing]}" if packing else "plain"
    print(f"unetkit: model.lowering: auto is {shown}: {why}", file=sys.stderr)
    return with_packing(recipe, packing)
