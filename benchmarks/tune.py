"""The batch search against the truth: every multiple of 8 images per replica compiled, and the few that the search asks about.

    python benchmarks/tune.py [--chip v5e-8,v6e-8]

A U-Net of two levels, 32 and 64 channels, float32, with images so large that its memory ends at 128 images per replica: 16
multiples of 8 that fit, on both sides of the layout switch at 64. Prints both tables. Exits 1 where fewer than 12 fit, the
search asked for more than 5 complete compilations, or its choice makes over 3 % fewer images per second than the best there
is. A program takes half a minute to compile; answers are cached, so a benchmark that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from unetkit.recipe import read
from unetkit.tpu import tuning
from unetkit.tpu.answer import Answer, Step
from unetkit.tpu.ask import Stage
from unetkit.tpu.chips import chip
from unetkit.tpu.search import MARGIN, fits
from unetkit.tpu.tiles import LANES, SUBLANES

SIZES = {"v5e-8": 288, "v6e-8": 416}
"""Pixels per side at which the memory of an accelerator ends at 128 images per replica."""

FEWEST, COMPILES, LOSS = 12, 5, 0.03
SHARE = 1.0 - MARGIN


def network(chip_name: str) -> Any:
    return read(
        {
            "name": "two-levels",
            "backend": "jax",
            "data": {"source": "emoji", "size": SIZES[chip_name], "input_channels": 1},
            "model": {"levels": [32, 64], "norm": "none", "activation": "relu"},
            "optimizer": {"name": "sgd"},
            "training": {"images": 1_000_000, "batch": "auto"},
            "tpu": {"chip": chip_name},
        }
    )


def exhaustive(recipe: Any, chip_name: str) -> list[Answer]:
    """Every multiple of 8 images per replica, until a whole tile of lanes (128) has passed of which none fits."""
    replicas, found, largest = chip(chip_name).replicas, [], 0
    for rows in range(SUBLANES, 2**16, SUBLANES):
        if rows > largest + LANES:
            break
        answer = tuning.ask_inspection(recipe, chip_name, rows * replicas, "full", f"every batch: {rows} per replica on {chip_name}")
        found.append(answer)
        largest = rows if answer.fits else largest
        print(line(answer), flush=True)
    return found


def cold(recipe: Any, chip_name: str, batch: int, stage: Stage, label: str) -> Answer:
    """As if nothing was cached: of a batch that was only asked for its memory no time is known, though the cache holds it by now."""
    answer = tuning.ask_inspection(recipe, chip_name, batch, stage, label)
    return answer if stage == "full" else dataclasses.replace(answer, step=Step())


def line(answer: Answer, mark: str = "") -> str:
    speed, peak, limit = answer.step.images_per_second, answer.hbm.peak_bytes, answer.hbm.limit_bytes
    verdict = "yes" if fits(answer, SHARE) else "too near" if answer.fits else "no"
    needed = f"{peak / 2**30:.2f} of {limit / 2**30:.2f}" if peak and limit else "?"
    cells = f"{answer.global_batch}{mark}", answer.per_core_batch, needed, verdict, f"{speed:,.0f}" if speed else "", answer.source
    return f"| {' | '.join(map(str, cells))} |"


def head(title: str) -> None:
    print(f"\n{title}\n\n| global batch | per replica | GiB needed | fits | images/s | from |\n{'|---' * 6}|", flush=True)


def compare(chip_name: str) -> bool:
    """Prints both tables of one chip; whether the search keeps what it promises."""
    recipe = network(chip_name)
    head(f"{chip_name}, {SIZES[chip_name]} x {SIZES[chip_name]}: every multiple of {SUBLANES}")
    every = [a for a in exhaustive(recipe, chip_name) if fits(a, SHARE)]
    best = max(every, key=speed)
    found = tuning.tune_recipe(recipe, chip_name, ask=cold)
    head(f"{chip_name}: what the search asked about")
    for answer in found.candidates:
        print(line(answer, " (the choice)" if answer is found.choice else ""))
    if found.choice is None:
        print("\nthe search found nothing")
        return False
    sides = {answer.per_core_batch >= LANES // 2 for answer in every}
    loss = 1.0 - speed(found.choice) / speed(best)
    kept = len(every) >= FEWEST and len(sides) == 2 and found.compiles <= COMPILES and loss <= LOSS
    print(
        f"\n{chip_name}: {len(every)} fit, the best is {best.global_batch} ({speed(best):,.0f} images/s); the search chose "
        f"{found.choice.global_batch} ({speed(found.choice):,.0f}, {loss:.1%} fewer) with {found.compiles} complete compilations: "
        f"{'kept' if kept else 'NOT KEPT'}",
        flush=True,
    )
    return kept


def speed(answer: Answer) -> float:
    return answer.step.images_per_second or 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chip", default=",".join(SIZES), help="which of v5e-8 and v6e-8")
    results = [compare(name) for name in parser.parse_args().chip.split(",")]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
