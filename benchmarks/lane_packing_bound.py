"""What bounds a packed step: the compiler's cycles for its convolutions alone, each reading its operands and writing its result.

    python benchmarks/lane_packing_bound.py [--chip v2-8] [--start 16,32,64] [--packing '[[2,4],[2,2],[1,2]]'] [--image 256]

Takes the training step of benchmarks/lane_packing.py for one core, throws away everything but its convolutions (forward,
by image and by weight), gives each of them operands of its own, and asks the compiler about that. No step of this plan can
take fewer cycles, whatever is done about pooling, activations and moving cells. Nothing here was measured on a TPU.
"""

from __future__ import annotations

import dataclasses
import re

from lane_packing import PER_CORE, PLANS, arguments, cycles, question

from unetkit.tpu import analyse, ask, lower, packing_plan, progress
from unetkit.tpu.chips import chip

CONVOLUTION = re.compile(r"stablehlo\.convolution\(%\S+, %\S+\)(.*) : \((tensor<\S+>), (tensor<\S+>)\) -> (tensor<\S+>)")


AT_ONCE = 12
"""Convolutions in one program: their operands and results are all in memory at once."""


def convolutions_of(code: bytes) -> list[tuple[str, int]]:
    """StableHLO modules of a program's convolutions, each with its own operands, and how many each module holds."""
    import jax._src.interpreters.mlir as mlir
    from jax._src.lib.mlir import ir

    with mlir.make_ir_context():
        text = ir.Module.parse(code).operation.get_asm(enable_debug_info=False)
    found = CONVOLUTION.findall(text)
    return [(module_of(part), len(part)) for part in (found[n : n + AT_ONCE] for n in range(0, len(found), AT_ONCE))]


def module_of(found: list[tuple[str, str, str, str]]) -> str:
    """A StableHLO module of convolutions as `CONVOLUTION` finds them."""
    operands = [f"%a{n}: {image}, %b{n}: {kernel}" for n, (_, image, kernel, _) in enumerate(found)]
    lines = [
        f"    %r{n} = stablehlo.convolution(%a{n}, %b{n}){how} : ({image}, {kernel}) -> {out}"
        for n, (how, image, kernel, out) in enumerate(found)
    ]
    results, types = ", ".join(f"%r{n}" for n in range(len(found))), ", ".join(out for *_, out in found)
    body = "\n".join(lines)
    return (
        f"module @bound attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{\n"
        f"  func.func public @main({', '.join(operands)}) -> ({types}) {{\n{body}\n    return {results} : {types}\n  }}\n}}\n"
    )


def bound(chip_name: str, start: int, packing: packing_plan.Packing, image: int) -> None:
    where = chip(chip_name)
    asked = packing_plan.with_packing(question(chip_name, start, image), packing)
    (step,) = lower.lower_recipe(asked, chip("v5e-1"), [PER_CORE], "jax")  # one replica: of a slice, every core runs the same
    parts, sums = convolutions_of(step.program.code), [0.0, 0.0]
    for code, count in parts:
        alone = ask.Program(code=code.encode(), convolutions=count, convolution_elements=step.program.convolution_elements // len(parts))
        with progress.Line(f"{count} convolutions") as show:
            record, _ = ask.compile_program(alone, where, show=show)
        answer = analyse.answer(dataclasses.replace(step, program=alone), record, where)
        if not answer.step.cycles:
            print(f"{chip_name} start {start}: {answer.source}: {answer.failure}")
            return
        sums = [total + more for total, more in zip(sums, cycles(answer), strict=True)]
    print(f"{chip_name} {asked.training.precision} start {start} image {image} packing {step.packing}")
    count = sum(count for _, count in parts)
    print(f"  {count} convolutions alone: {sums[0]:.2f} M cycles, with bytes {sums[1]:.2f} M", flush=True)


def main() -> None:
    args = arguments(__doc__)
    for start in args.start:
        bound(args.chip, start, args.packing or PLANS[start], args.image)


if __name__ == "__main__":
    main()
