"""The time of operations that the compiler gives no cycles for. Fixed before the first comparison with a measured step.

The rule, in the order in which it is applied:

1. Names and views (parameters, constants, tuples and their elements, bitcasts, the device's own number) take no time.
2. An operation with the compiler's `estimated_cycles` takes these over the clock of the chip table.
3. A collective takes the longest of three times: its bytes over the links, its hops, its bytes through HBM. With n chips
   and B bytes an all-reduce sends 2 B (n - 1) / n through each chip's links and passes the ring of each axis twice; an
   all-gather, reduce-scatter or all-to-all half of that; a permutation B over one link. 1 microsecond a hop.
4. An asynchronous transfer takes what is left of its time after the work that the compiler put between start and end.
5. Everything else (the max-pool gradient's select-and-scatter, copies, custom calls) takes its bytes over the HBM
   bandwidth: every operand read once and every result written once, as padded, counting only what lies in HBM.

Sources: clocks, links and bandwidths are those of `chips.py`. That a bandwidth-optimal all-reduce moves 2 (n - 1) / n of
its bytes: Patarasu and Yuan, J. Parallel Distrib. Comput. 69, 2009. That axes of a torus add up, and the microsecond a
hop: Austin et al., "How to Scale Your Model", 2025, section on TPU networking. Rule 5 is the roofline's memory side
(Williams et al., Comm. ACM 52, 2009): no operation can be faster, so where it errs it errs towards too little time.
"""

from __future__ import annotations

import dataclasses

from unetkit.tpu.chips import Chip

HOP_SECONDS = 1e-6

FREE = frozenset(
    {
        *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "partition-id", "replica-id"),
        *("after-all", "add-dependency", "opt-barrier", "domain"),
    }
)

_SHARE_SENT = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0, "collective-broadcast": 1.0}
COLLECTIVES = frozenset(_SHARE_SENT) | {"collective-permute"}


def bytes_seconds(moved_bytes: float, chip: Chip) -> float:
    """Rule 5: bytes read and written over the HBM bandwidth of one replica."""
    return moved_bytes / chip.hbm_bytes_per_second


def collective_seconds(opcode: str, payload_bytes: float, moved_bytes: float, chip: Chip) -> float:
    """Rule 3.

    Args:
        opcode: one of `COLLECTIVES`.
        payload_bytes: bytes of the whole array that is reduced, gathered or sent, per replica.
        moved_bytes: operands and results as padded in HBM.
    """
    through_hbm = bytes_seconds(moved_bytes, chip)
    if chip.chips == 1:
        return through_hbm
    if opcode == "collective-permute":
        return max(through_hbm, payload_bytes / chip.generation.link_bytes_per_second, HOP_SECONDS)
    sent = _SHARE_SENT[opcode]
    over_links = sent * payload_bytes * (chip.chips - 1) / chip.chips / (chip.links * chip.generation.link_bytes_per_second)
    hops = sent * HOP_SECONDS * sum(max(n // 2, 1) for n in chip.shape if n > 1)
    return max(through_hbm, over_links, hops)


def with_bandwidths(chip: Chip, factor: float) -> Chip:
    """The chip with every bandwidth that the rule assumes multiplied, to see how much an answer rests on them."""
    generation = dataclasses.replace(
        chip.generation,
        hbm_bytes_per_second=chip.generation.hbm_bytes_per_second * factor,
        link_bytes_per_second=chip.generation.link_bytes_per_second * factor,
    )
    return dataclasses.replace(chip, generation=generation)
