"""Predicted against measured: training steps and single kernels that were captured and timed on TPU v3.

    python benchmarks/tpu_truth.py FOLDER [--kernels-only]

FOLDER holds `unet3d_v3_module.hlo_module.pb` and `unet3d_v3_runtimes.json` (one step of a 3-D U-Net on 32 cores) and
`v3_kernels/`, from the public TpuGraphs data set (Phothilimthana et al., NeurIPS 2023). They were measured under a compiler
years older than the one that is asked here. Nothing is tuned to these numbers: the rule for operations without cycles
(unetkit/tpu/uncounted.py) was committed before the first comparison. Compiling the step takes minutes; the answer is cached.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from unetkit.tpu import ask, hlo, profile, progress, timing, uncounted
from unetkit.tpu.chips import Chip, chip
from unetkit.tpu.record import Record

CORES = 32
SLICE = chip("v3-32")
ONE = chip("v3-8")
FACTORS = (0.5, 1.0, 2.0)


def compiled(path: Path, where: Chip, replicas: int) -> Record:
    program = ask.Program(code=path.read_bytes(), format="captured", replicas=replicas)
    with progress.Line(path.name) as show:
        return ask.compile_program(program, where, show=show)[0]


def predicted(record: Record, where: Chip) -> profile.Profile:
    module = hlo.parse(record.program)
    return profile.profile(module, timing.time_operations(module, where), where)


def print_step(folder: Path) -> None:
    measured_ms = json.loads((folder / "unet3d_v3_runtimes.json").read_text())["default_ns"][0] / 1e6
    record = compiled(folder / "unet3d_v3_module.hlo_module.pb", SLICE, CORES)
    if record.outcome != "compiled":
        print(f"3-D U-Net step: {record.outcome}: {record.message}")
        return
    bare = predicted(record, SLICE).cycles / SLICE.clock_hz * 1e3
    print(f"3-D U-Net step on {SLICE.name}: measured {measured_ms:.1f} ms; {record.compiler.splitlines()[-1]}")
    print(f"  cycles alone               {bare:8.1f} ms   ratio {bare / measured_ms:.3f}")
    for factor in FACTORS:
        found = predicted(record, uncounted.with_bandwidths(SLICE, factor))
        ms = found.seconds * 1e3
        print(
            f"  assumed bandwidths x {factor:<4}    {ms:8.1f} ms   ratio {ms / measured_ms:.3f}   "
            f"{found.estimated_from_bytes_share:.1%} without cycles"
        )
    for row in predicted(record, SLICE).categories:
        print(f"    {row.name:22} {row.ms:8.2f} ms {row.time_share:6.1%}, {row.estimated_from_bytes_share:4.0%} without cycles")


def print_kernels(folder: Path) -> None:
    print(f"single kernels on one {ONE.generation.name} core")
    print(f"  {'kernel':14} {'measured us':>12} {'predicted us':>13} {'ratio':>7}  what it became")
    for entry, path in zip(json.loads((folder / "v3_kernels.json").read_text()), sorted(folder.glob("*.pb")), strict=True):
        measured = entry["default_ns"][0] / 1e3
        record = compiled(path, ONE, 1)
        if record.outcome != "compiled":
            words = " ".join((record.message or "").split())
            print(f"  {entry['name']:14} {measured:12.1f} {'-':>13} {'-':>7}  cannot be compiled alone: {words[:90]}")
            continue
        found = predicted(record, ONE)
        became = ", ".join(f"{row.operations} {row.name}" for row in found.categories)
        us = found.seconds * 1e6
        print(f"  {entry['name']:14} {measured:12.1f} {us:13.1f} {us / measured:7.2f}  {became}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernels-only", action="store_true", help="leave the step out, which takes minutes")
    args = parser.parse_args()
    if not args.kernels_only:
        print_step(args.folder)
    print_kernels(args.folder / "v3_kernels")


if __name__ == "__main__":
    main()
