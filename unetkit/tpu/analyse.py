"""From what the compiler said to an answer: facts and arithmetic, no wording for the screen."""

from __future__ import annotations

import dataclasses
import re

from unetkit import __version__
from unetkit.tpu import buffers, hlo, profile, timing, uncounted
from unetkit.tpu.answer import Answer, Source, Step
from unetkit.tpu.chips import GIB, Chip
from unetkit.tpu.hlo import Instruction
from unetkit.tpu.lower import Lowered
from unetkit.tpu.record import Record
from unetkit.tpu.timing import Timed
from unetkit.tpu.viewer import Viewer

_SOURCES: dict[str, Source] = {"compiled": "compiled", "memory": "compiled", "oom": "compiler_oom"}
_LIMIT = re.compile(r"available HBM \(([\d.]+)G\)")

WITHOUT_TIME = "Stopped once every buffer had its place: memory is the compiler's, time is not known."
FROM_DUMP = "from the compiler's own dump of the program it refused"
ONE_REPLICA = "This is one replica's program, bridged on a CPU; the all-reduce of its gradients was added by estimate."


def answer(lowered: Lowered, record: Record, chip: Chip) -> Answer:
    """The answer about one lowered step."""
    base = Answer(
        name=lowered.name,
        chip=chip.name,
        chips=chip.chips,
        cores=chip.cores,
        replicas=chip.replicas,
        global_batch=lowered.global_batch,
        per_core_batch=lowered.per_core_batch,
        accumulation=lowered.accumulation,
        precision=lowered.precision,
        remat=lowered.remat,
        lowering=lowered.lowering,
        packing=lowered.packing,
        image=lowered.image,
        source=_SOURCES.get(record.outcome, "compiler_crash"),
        program=lowered.engine,
        fits={"compiled": True, "memory": True, "oom": False}.get(record.outcome),
        failure=record.message,
        fingerprint=lowered.program.fingerprint,
        versions={"unetkit": __version__, **lowered.versions, **record.versions},
    )
    notes = [ONE_REPLICA] if lowered.engine == "tensorflow" and chip.replicas > 1 else []
    if not record.buffers:
        return dataclasses.replace(base, notes=tuple(notes))
    module = hlo.parse(record.program)
    layers = frozenset(lowered.layers) or None
    viewer = Viewer(module, buffers.parse(record.buffers, record.ranges), lowered.arguments, layers)
    limit = re.search(_LIMIT, record.message or "")
    base = dataclasses.replace(
        base,
        hbm=viewer.hbm(int(float(limit[1]) * GIB) if limit else chip.hbm_bytes, record.memory.get("code")),
        padding=viewer.padding(),
        curve=viewer.curve(),
        buffers=viewer.buffers(),
        buffers_from=None if base.fits else FROM_DUMP,
    )
    if record.outcome != "compiled":
        return dataclasses.replace(base, notes=(*notes, WITHOUT_TIME) if record.outcome == "memory" else tuple(notes))
    found = profile.profile(module, timed(lowered, record, module, chip), chip, layers)
    return dataclasses.replace(
        base,
        step=_step(found, lowered, chip),
        categories=found.categories,
        operations=found.operations,
        levels=found.levels,
        notes=tuple(notes),
    )


def timed(lowered: Lowered, record: Record, module: hlo.Module, chip: Chip) -> list[Timed]:
    """The operations of the step with their times; none where no code was generated."""
    if record.outcome != "compiled":
        return []
    found = timing.time_operations(module, chip)
    if lowered.engine == "tensorflow" and chip.replicas > 1:
        found.append(gradient_all_reduce(module, lowered, chip))
    return found


def _step(found: profile.Profile, lowered: Lowered, chip: Chip) -> Step:
    per_second = lowered.global_batch / found.seconds
    return Step(
        estimated_ms=found.seconds * 1e3,
        images_per_second=per_second,
        images_per_second_per_chip=per_second / chip.chips,
        mxu_utilization=found.flops / (found.seconds * chip.peak_flops),
        estimated_from_bytes_share=found.estimated_from_bytes_share,
        cycles=found.cycles,
        flops=found.flops,
        bytes_accessed=found.moved_bytes,
    )


def gradient_all_reduce(module: hlo.Module, lowered: Lowered, chip: Chip) -> Timed:
    """The all-reduce that a one-replica program lacks: every trained weight's gradient, once."""
    payload = sum(
        array.padded_bytes
        for number, parameter in module.entry.parameters().items()
        if (known := lowered.arguments.get(f"#{number}")) and known.kind == "weight"
        for array in parameter.arrays
    )
    seconds = uncounted.collective_seconds("all-reduce", payload, 2 * payload, chip)
    instruction = Instruction("all-reduce (added)", f"{payload} bytes of gradients", "all-reduce", (), "")
    return Timed(instruction, module.entry, seconds, "links", 0.0, 2.0 * payload)
