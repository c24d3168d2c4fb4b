"""Whether the compiler takes what the arithmetic model recommends: the batches that `tune` chooses without a compiler.

    python benchmarks/tune_model.py [--recipe emoji,the-question] [--chip v2-8,v3-8,v4-8,v5e-8,v5p-8,v6e-8,tpu7x-8]

tunes every shipped recipe for every accelerator as if no compiler was here, without a limit by the number of images, and asks
the compiler for the memory of each choice. Exits 1 where one does not fit. The compiler is stopped once it has placed the
buffers, so a row takes from seconds to a minute; rows asked before come from the cache.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from unetkit.recipe import read
from unetkit.tpu import tuning
from unetkit.tpu.chips import KNOWN
from unetkit.tpu.packing_plan import with_packing

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
GIB = 2**30


def row(path: Path, chip_name: str) -> bool | None:
    """Prints one comparison; whether the compiler agrees that the model's choice fits (None: it did not say, or there is no choice)."""
    recipe = with_packing(read(path), ())
    found = tuning.tune_recipe(recipe, chip_name, by_model=True)
    if (choice := found.choice) is None:
        print(f"| {path.stem} | {chip_name} | none | | | | | |", flush=True)
        return None
    batch = choice.global_batch or 0
    truth = tuning.ask_inspection(recipe, chip_name, batch, "memory", f"{path.stem} on {chip_name}")
    needed, counted, limit = ((n or 0) / GIB for n in (truth.hbm.peak_bytes, choice.hbm.peak_bytes, choice.hbm.limit_bytes))
    verdict = {True: "yes", False: "NO", None: truth.failure}[truth.fits]
    cells = path.stem, chip_name, batch, choice.per_core_batch, f"{counted:.2f}", f"{needed:.2f}", f"{needed / limit:.0%}", verdict
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return truth.fits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shipped = sorted(path.stem for path in RECIPES.glob("*.yaml"))
    parser.add_argument("--recipe", default=",".join(shipped), help="names in recipes/")
    parser.add_argument("--chip", default=",".join(KNOWN), help="accelerators")
    args = parser.parse_args()
    print("| recipe | chip | model's choice | per replica | GiB by the model | GiB by the compiler | of the HBM | fits |")
    print("|---" * 8 + "|")
    said = [row(RECIPES / f"{name}.yaml", chip_name) for name in args.recipe.split(",") for chip_name in args.chip.split(",")]
    refused, known = said.count(False), len(said) - said.count(None)
    print(f"{len(said)} searches, {known} choices that the compiler was asked about, {refused} that it says do not fit")
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main())
