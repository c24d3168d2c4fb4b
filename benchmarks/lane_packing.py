"""Plain against packed: the whole training step of the original U-Net, by the TPU compiler's estimate.

    python benchmarks/lane_packing.py [--chip v2-8] [--start 16,32,64] [--packing '[[2,4],[2,2],[1,2]]'] [--image 256]

Depth 4, max-pool, 3x3 transposed convolutions, Adam, L1, 16 images per core; float32 on v2 and v3, else mixed_bfloat16. Each
program takes the compiler minutes; answers are cached. Two ratios are printed: of the compiler's cycles alone, and with what
it gives no cycles for estimated from bytes (unetkit/tpu/uncounted.py). Nothing here was measured on a TPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from unetkit import recipe
from unetkit.tpu import inspection, packing_plan
from unetkit.tpu.answer import Answer
from unetkit.tpu.chips import chip

RECIPE = Path(__file__).parents[1] / "recipes" / "the-question.yaml"
PER_CORE = 16
KERAS = {("v2", 16): 128.4, ("v2", 32): 150.7, ("v2", 64): 260.7, ("v5e", 16): 59.8, ("v5e", 32): 64.7, ("v5e", 64): 85.0}
"""Millions of cycles of Keras' own lowering, found before there was any packing; plain must be within 3 % of them."""

PLANS = {16: ((2, 4), (2, 2), (1, 2)), 32: ((2, 2), (1, 2)), 64: ((1, 2),)}
MIB = 2**20


def question(chip_name: str, start: int, image: int) -> Any:
    where = chip(chip_name)
    precision = "float32" if where.generation.name in ("v2", "v3") else "mixed_bfloat16"
    changes = (
        f"model.start_ch={start}",
        f"data.size={image}",
        f"training.batch={PER_CORE * where.replicas}",
        f"training.precision={precision}",
    )
    return recipe.read(RECIPE, changes)


def cycles(answer: Answer) -> tuple[float, float]:
    """Millions of cycles: the compiler's own, and with what it does not count."""
    clock_hz = chip(answer.chip).clock_hz
    return answer.step.cycles / 1e6, answer.step.estimated_ms * 1e-3 * clock_hz / 1e6


def compare(chip_name: str, start: int, packing: packing_plan.Packing, image: int) -> None:
    asked = question(chip_name, start, image)
    plain, packed = (inspection.ask_recipe(packing_plan.with_packing(asked, one), chip_name)[0].answer for one in ((), packing))
    for answer in (plain, packed):
        if not answer.step.cycles:
            print(f"{chip_name} start {start}: {answer.source}: {answer.failure}")
            return
    (bare, whole), (packed_bare, packed_whole) = cycles(plain), cycles(packed)
    known = KERAS.get((chip(chip_name).generation.name, start)) if image == 256 else None
    against = f" ({bare / known - 1:+.1%} of Keras')" if known else ""
    print(f"{chip_name} {asked.training.precision} start {start} image {image} packing {packed.packing}")
    print(f"  plain   {bare:7.2f} M cycles{against}, with bytes {whole:7.2f} M, temporaries {plain.hbm.temp_bytes / MIB:6.0f} MiB")
    print(f"  packed  {packed_bare:7.2f} M cycles, with bytes {packed_whole:7.2f} M, temporaries {packed.hbm.temp_bytes / MIB:6.0f} MiB")
    print(f"  plain / packed: {bare / packed_bare:.2f} on cycles alone, {whole / packed_whole:.2f} with bytes", flush=True)
    for row in packed.categories[:7]:
        print(f"    {row.name:24} {row.time_share:6.1%} of the packed step, {row.operations} operations")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chip", default="v2-8")
    parser.add_argument("--start", default="16,32,64", type=lambda text: [int(part) for part in text.split(",")], help="first channels")
    parser.add_argument("--packing", type=json.loads, help="blocks per level (default: those that fill the lanes)")
    parser.add_argument("--image", type=int, default=256)
    args = parser.parse_args()
    for start in args.start:
        packing = args.packing or PLANS.get(start) or packing_plan.candidates(question(args.chip, start, args.image))[0]
        compare(args.chip, start, tuple(map(tuple, packing)), args.image)


if __name__ == "__main__":
    main()
