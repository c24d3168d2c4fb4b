"""How far the arithmetic model's peak memory is from the compiler's.

    python benchmarks/arithmetic_model.py [--drawn 20] [--seed 0]

asks both about every shipped recipe (on its chip or v2-8), about
`recipes/the-question.yaml` at the batches that docs/the-question.md tells of, and about recipes drawn by a seeded generator;
prints the table and the worst case of each part. Exits 1 where a shipped recipe is off by more than 25 %. The compiler is
stopped once it has placed the buffers, so a row takes from seconds to a minute; rows asked before come from the cache.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unetkit.recipe import Recipe, read
from unetkit.tpu import inspection, model
from unetkit.tpu.chips import KNOWN, chip
from unetkit.tpu.packing_plan import with_packing

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
ALLOWED = 0.25
QUESTION = [([], batch) for batch in (128, 136, 192, 256, 1024)] + [(["data.size=128"], 1024)]
"""The table that started the project: overrides and global batches."""


def shipped() -> Iterator[tuple[str, Recipe, str, int]]:
    """(what, recipe, chip, global batch) of every shipped recipe, unpacked, and of the question's table."""
    for path in sorted(RECIPES.glob("*.yaml")):
        recipe = read(path)
        where = recipe.tpu.chip or "v2-8"
        replicas = chip(where).replicas
        if path.stem != "the-question":
            batch = recipe.training.batch
            own = set() if batch == "auto" else {max(replicas, batch // replicas * replicas)}
            for batch in {8 * replicas, 16 * replicas} | own:
                yield path.stem, with_packing(recipe, ()), where, batch
    for overrides, batch in QUESTION:
        yield "the-question", read(RECIPES / "the-question.yaml", overrides), "v2-8", batch


def drawn(seed: int) -> tuple[Recipe, str]:
    """A small random recipe, and a chip to run it on."""
    dice = random.Random(seed)
    levels = dice.choice([2, 3, 3, 4])
    start, growth = dice.choice([8, 16, 24, 32, 48, 64, 96]), dice.choice([1.0, 1.5, 2.0, 2.0])
    accelerator = dice.choice(KNOWN)
    batch = dice.choice([1, 2, 4, 8, 12, 16, 17, 32, 64]) * chip(accelerator).replicas
    network: dict[str, Any] = {
        "preset": "unet",
        "levels": [{"channels": int(start * growth**level)} for level in range(levels)],
        "blocks": dice.choice([1, 1, 2]),
        "norm": dice.choice(["none", "batch", "group", "instance", "layer"]),
        "activation": dice.choice(["relu", "silu", "gelu", "leaky_relu"]),
        "residual": dice.choice(["none", "none", "add", "concat"]),
        "dropout": dice.choice([0.0, 0.2]),
        "down": dice.choice(["max_pool", "strided_conv"]),
        "up": dice.choice(["transposed_conv", "nearest_conv"]),
    }
    if dice.random() < 0.2:
        network["levels"][-1]["attention"], network["heads"] = True, 1
    recipe = {
        "name": f"drawn-{seed}",
        "data": {
            "source": "emoji",
            "size": dice.choice([32, 48, 64, 96]),
            "input_channels": dice.choice([1, 3, 4]),
        },
        "model": network,
        "optimizer": {"name": dice.choice(["adam", "adamw", "sgd", "lion"])},
        "training": {"batch": batch, "images": 100 * batch, "precision": dice.choice(["float32", "float32", "mixed_bfloat16"])},
    }
    return read(recipe), accelerator


def row(what: str, recipe: Recipe, where: str, batch: int) -> float:
    """Prints one comparison; returns the model's error as a share of the compiler's peak."""
    (compiled,) = inspection.inspect_recipe(recipe, where, [batch], stage="memory")
    (modelled,) = model.estimate_recipe(recipe, where, [batch])
    true, guess = compiled.hbm.peak_bytes, modelled.hbm.peak_bytes
    error = guess / true - 1
    verdict = {True: "fits", False: "too large"}[compiled.fits] + ("" if compiled.fits == modelled.fits else ", model says otherwise")
    side = "x".join(map(str, compiled.image))
    print(f"| {what} | {side} | {where} | {batch} | {true / 2**20:,.1f} | {guess / 2**20:,.1f} | {error:+.1%} | {verdict} |", flush=True)
    return error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drawn", type=int, default=20, help="how many recipes to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the first recipe drawn")
    args = parser.parse_args()
    print("| recipe | image | chip | global batch | compiler MiB | model MiB | error | compiler's verdict |")
    print("|---" * 8 + "|")
    known = [row(*case) for case in shipped()]
    random_ones = []
    for seed in range(args.seed, args.seed + args.drawn):
        recipe, where = drawn(seed)
        random_ones.append(row(recipe.name, recipe, where, recipe.training.batch))
    worst = max(known, key=abs)
    print(f"worst on the shipped recipes: {worst:+.1%} (allowed: {ALLOWED:.0%})")
    if random_ones:
        ranked = sorted(map(abs, random_ones))
        print(f"worst on {len(ranked)} drawn: {max(random_ones, key=abs):+.1%}; median {ranked[len(ranked) // 2]:.1%}")
    return int(abs(worst) > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
