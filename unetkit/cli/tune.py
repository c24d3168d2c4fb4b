"""`unetkit tune`: the fastest global batch on each of several TPUs, before one is paid for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unetkit.cli.parser import (
    EXCEEDED,
    INTERRUPTED,
    Commands,
    add_command,
    add_json,
    add_recipe,
    answer,
    import_from_here,
    in_a_folder,
    read_recipe,
)
from unetkit.errors import UserError

if TYPE_CHECKING:
    from unetkit.tpu.tuning import Tuned


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "tune",
        tune,
        "the fastest batch that fits, on each of several TPUs",
        "unetkit tune recipes/emoji.yaml --chip v2-8,v5e-8 --price v5e=1.2",
    )
    add_recipe(parser)
    parser.add_argument(
        "--chip", metavar="NAME[,NAME...]", type=_names, help="accelerators, as v2-8,v5e-8 (default: the recipe's tpu.chip)"
    )
    parser.add_argument("--write", metavar="FILE", type=in_a_folder, help="write the recipe with the choice for the fastest of the chips")
    parser.add_argument("--budget", metavar="MINUTES", type=_minutes, help="begin no further question after so long, all chips together")
    parser.add_argument("--price", metavar="NAME=X", type=_price, action="append", default=[], help="price per chip-hour, as v5e=1.2")
    add_json(parser)


def tune(args: argparse.Namespace) -> int:
    """Searches, shows and writes; 3 where no batch was found for some chip, 130 after Ctrl-C, with what was known by then."""
    recipe = read_recipe(args)
    import_from_here()
    import time

    from unetkit.tpu import tune_terminal, tuning
    from unetkit.tpu.chips import chip

    names = args.chip or ([recipe.tpu.chip] if recipe.tpu.chip else [])
    if not names:
        raise UserError("No accelerator was named (--chip, or tpu.chip in the recipe), as v2-8")
    asked = [chip(name) for name in names]  # all of them, before the first is asked about
    priced({one.generation.name for one in asked}, args.price)
    images, ends = training_images(recipe), None if args.budget is None else time.monotonic() + 60.0 * args.budget
    found: list[Tuned] = []
    for name in names:
        minutes = None if ends is None else max(0.0, (ends - time.monotonic()) / 60.0)
        found.append(tuning.tune_recipe(recipe, name, images=images, minutes=minutes))
        if found[-1].ended == "interrupted":
            break
    prices: dict[str, float] = dict(args.price)
    answer(args.json, tune_terminal.text(found, recipe.training.images, prices), {"chips": {one.chip.name: one.to_dict() for one in found}})
    if args.write:
        write(Path(args.write), found)
    if found[-1].ended == "interrupted":
        return INTERRUPTED
    return 0 if all(one.choice for one in found) else EXCEEDED


def priced(asked: set[str], prices: list[tuple[str, float]]) -> None:
    """Refuses a price of what is not asked about: it would have no effect."""
    for name, price in prices:
        if name not in asked:
            only = ", ".join(sorted(asked))
            raise UserError(f"--price {name}={price:g}: no {name} is asked about, only {only}; name one with --chip, as {name}-8")


def training_images(recipe: Any) -> int | None:
    """How many training images there are; None where the data are not here, as on a laptop that only plans."""
    from unetkit.data import open_dataset

    try:
        return len(open_dataset(recipe.data, recipe.seed).train)
    except UserError:
        return None


def write(path: Path, found: list[Tuned]) -> None:
    """Writes the recipe with the fastest choice, every default in it."""
    from unetkit import files
    from unetkit.recipe import to_yaml

    chosen = [one for one in found if one.choice is not None]
    if not chosen:
        raise UserError(f"--write {path}: no batch was found, so nothing is written")
    best = max(chosen, key=lambda one: one.choice.step.images_per_second or 0.0)
    files.write(path, f"# unetkit tune: {'; '.join(best.reasons)}\n{to_yaml(best.recipe)}")
    print(f"wrote {path}: batch {best.choice.global_batch} for a {best.chip.name}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not minutes > 0.0:
        raise argparse.ArgumentTypeError(f"expected minutes, more than 0; got {text!r}")
    return minutes


def _price(text: str) -> tuple[str, float]:
    from unetkit.tpu.chips import ALIASES, GENERATIONS

    name, _, number = text.partition("=")
    name = ALIASES.get(name.split("-")[0], name.split("-")[0])
    try:
        price = float(number)
    except ValueError:
        price = 0.0
    if name not in GENERATIONS or not price > 0.0:
        raise argparse.ArgumentTypeError(f"expected a TPU version and a price per chip-hour, as v5e=1.2; got {text!r}")
    return name, price
