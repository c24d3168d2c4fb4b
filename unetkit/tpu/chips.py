"""The accelerators that can be asked about: their sizes, memories, clocks and links, each with its source.

Nothing in this table was measured on a TPU by this project. Sources, by letter:

C  Cloud TPU documentation, the page of each version under https://cloud.google.com/tpu/docs/ (peak, HBM, links)
N  Norrie et al., "The Design Process for Google's Training Chips: TPUv2 and TPUv3", IEEE Micro 41(2), 2021
J  Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer", ISCA 2023
S  Austin et al., "How to Scale Your Model", 2025, chapter on TPUs (vector unit, one-way link bandwidth)
L  what the compiler itself says (libtpu 0.0.52): usable HBM in its out-of-memory text, names of topologies, devices

A *replica* is a device that a training strategy sees on the real machine; on v4 and v5p that is a whole chip whose two
cores work as one ("megacore"). Peaks, bandwidths and memories of a `Chip` are per replica.
"""

from __future__ import annotations

import difflib
import itertools
import re
from dataclasses import dataclass, field
from typing import Literal

from unetkit.errors import UserError

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Generation:
    """What all sizes of one TPU version share. Figures are per TensorCore unless the name says otherwise."""

    name: str
    named_by: Literal["cores", "chips"]
    cores_per_chip: int
    replicas_per_chip: int
    torus: Literal[2, 3]
    most_chips: int
    peak_flops: float
    clock_hz: float
    hbm_bytes_per_second: float
    hbm_bytes_per_replica: int
    link_bytes_per_second: float
    vector_slots: int
    matrix_side: int = 128
    topology_options: dict[str, str] = field(default_factory=dict)


GENERATIONS = {
    g.name: g
    for g in (
        # peak: 45 TFLOP/s per chip, HBM 700 GB/s per chip (C, N); four links of 496 Gbit/s (N); 7.48G (L).
        Generation(
            name="v2", named_by="cores", cores_per_chip=2, replicas_per_chip=2, torus=2, most_chips=256,
            peak_flops=23e12, clock_hz=0.70e9, hbm_bytes_per_second=350e9, hbm_bytes_per_replica=int(7.48 * GIB),
            link_bytes_per_second=62e9, vector_slots=2,
        ),
        # peak: 123 TFLOP/s and 900 GB/s per chip (C); four links of 656 Gbit/s (N); 15.48G (L).
        Generation(
            name="v3", named_by="cores", cores_per_chip=2, replicas_per_chip=2, torus=2, most_chips=1024,
            peak_flops=61.5e12, clock_hz=0.94e9, hbm_bytes_per_second=450e9, hbm_bytes_per_replica=int(15.48 * GIB),
            link_bytes_per_second=82e9, vector_slots=2,
        ),
        # 275 TFLOP/s and 1,228 GB/s per chip (C); six links of 50 GB/s (J); 30.75G with megacore, 15.25G without (L).
        Generation(
            name="v4", named_by="cores", cores_per_chip=2, replicas_per_chip=1, torus=3, most_chips=4096,
            peak_flops=137.5e12, clock_hz=1.05e9, hbm_bytes_per_second=614e9, hbm_bytes_per_replica=int(30.75 * GIB),
            link_bytes_per_second=50e9, vector_slots=4, topology_options={"chip_config_name": "megacore"},
        ),
        # 197 TFLOP/s, 819 GB/s, 400 GB/s over four links in both directions, per chip (C); 15.75G (L).
        Generation(
            name="v5e", named_by="chips", cores_per_chip=1, replicas_per_chip=1, torus=2, most_chips=256,
            peak_flops=197e12, clock_hz=1.50e9, hbm_bytes_per_second=819e9, hbm_bytes_per_replica=int(15.75 * GIB),
            link_bytes_per_second=50e9, vector_slots=4,
        ),
        # 459 TFLOP/s, 2,765 GB/s, 4,800 Gbit/s over six links, per chip (C); 95.73G (L).
        Generation(
            name="v5p", named_by="cores", cores_per_chip=2, replicas_per_chip=1, torus=3, most_chips=6144,
            peak_flops=229.5e12, clock_hz=1.75e9, hbm_bytes_per_second=1382e9, hbm_bytes_per_replica=int(95.73 * GIB),
            link_bytes_per_second=100e9, vector_slots=4,
        ),
        # 918 TFLOP/s, 1,638 GB/s, 800 GB/s over four links in both directions, per chip; matrix unit of 256 x 256 (C); 31.24G (L).
        Generation(
            name="v6e", named_by="chips", cores_per_chip=1, replicas_per_chip=1, torus=2, most_chips=256,
            peak_flops=918e12, clock_hz=1.75e9, hbm_bytes_per_second=1638e9, hbm_bytes_per_replica=int(31.24 * GIB),
            link_bytes_per_second=100e9, vector_slots=4, matrix_side=256,
        ),
        # 2,307 TFLOP/s, 7,380 GB/s, 1,200 GB/s over six links in both directions, per chip (C); 94.74G (L).
        Generation(
            name="tpu7x", named_by="cores", cores_per_chip=2, replicas_per_chip=2, torus=3, most_chips=4096,
            peak_flops=1153e12, clock_hz=2.2e9, hbm_bytes_per_second=3690e9, hbm_bytes_per_replica=int(94.74 * GIB),
            link_bytes_per_second=100e9, vector_slots=4, matrix_side=256,
        ),
    )
}  # fmt: skip

ALIASES = {"v5litepod": "v5e", "v5lite": "v5e", "v5": "v5p", "v6": "v6e", "v7x": "tpu7x"}

KNOWN = ("v2-8", "v3-8", "v4-8", "v5e-8", "v5p-8", "v6e-8", "tpu7x-8")
"""The smallest machine of each version that people rent; any size of the same shape may be asked for."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One accelerator of one size, as `v3-32`.

    Attributes:
        shape: chips along each axis of the torus.
        chips, cores, replicas: of the whole slice.
        topology: name under which the compiler knows it.
    """

    name: str
    generation: Generation
    shape: tuple[int, ...]
    chips: int
    cores: int
    replicas: int

    @property
    def topology(self) -> str:
        """As `v3:4x4`."""
        return f"{self.generation.name}:{'x'.join(map(str, self.shape))}"

    @property
    def cores_per_replica(self) -> int:
        return self.cores // self.replicas

    @property
    def clock_hz(self) -> float:
        return self.generation.clock_hz

    @property
    def peak_flops(self) -> float:
        """bfloat16 FLOP/s of one replica's matrix units. Float32 convolutions run through the same units by default."""
        return self.generation.peak_flops * self.cores_per_replica

    @property
    def hbm_bytes_per_second(self) -> float:
        return self.generation.hbm_bytes_per_second * self.cores_per_replica

    @property
    def hbm_bytes(self) -> int:
        """HBM of one replica that a program may use, as the compiler says it (it prints two decimals)."""
        return self.generation.hbm_bytes_per_replica

    @property
    def vector_ops_per_second(self) -> float:
        """Element operations of the vector unit: 8 x 128 lanes, each with `vector_slots` ALUs (N for v2 and v3, else S)."""
        return 8 * 128 * self.generation.vector_slots * self.clock_hz * self.cores_per_replica

    @property
    def links(self) -> int:
        """Links of one chip that carry traffic: one along an axis of two chips, two along a longer one, none along one."""
        return sum(min(n - 1, 2) for n in self.shape)


def chip(name: str) -> Chip:
    """The accelerator called `name`: `v2-8`, `v3-32`, `v5litepod-16`, or with its axes as `v4:2x2x4`.

    Raises:
        UserError: an unknown version or a size that no torus of this version has; lists the known and the nearest.
    """
    if match := re.fullmatch(r"([a-z0-9]+)-(\d+)", name.strip().lower()):
        generation = _generation(match[1], name)
        return _sized(generation, int(match[2]), name)
    if match := re.fullmatch(r"([a-z0-9]+):(\d+(?:x\d+){1,2})", name.strip().lower()):
        generation = _generation(match[1], name)
        shape = tuple(int(n) for n in match[2].split("x"))
        if len(shape) != generation.torus or 0 in shape:
            raise UserError(f"chip {name!r}: {generation.name} is a torus of {generation.torus} axes, as {_sized_example(generation)}")
        return _made(generation, shape)
    raise UserError(f"chip {name!r}: expected a version and a size, as v3-32; known: {', '.join(KNOWN)} and other sizes of these")


def _generation(word: str, asked: str) -> Generation:
    word = ALIASES.get(word, word)
    if word in GENERATIONS:
        return GENERATIONS[word]
    near = difflib.get_close_matches(word, [*GENERATIONS, *ALIASES], n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise UserError(f"chip {asked!r}: no TPU version {word!r}{hint}; known: {', '.join(KNOWN)} and other sizes of these")


def _sized(generation: Generation, number: int, asked: str) -> Chip:
    per = generation.cores_per_chip if generation.named_by == "cores" else 1
    shape = _shape(generation, number // per) if number % per == 0 else None
    if shape is None:
        sizes = sorted((n * per for n in range(1, generation.most_chips + 1) if _shape(generation, n)), key=lambda n: (abs(n - number), n))[
            :4
        ]
        nearest = ", ".join(f"{generation.name}-{n}" for n in sorted(sizes))
        raise UserError(f"chip {asked!r}: no {generation.name} slice of {number} {generation.named_by}; nearest: {nearest}")
    return _made(generation, shape)


def _shape(generation: Generation, chips: int) -> tuple[int, ...] | None:
    """The most cubic torus of so many chips. An axis has 1, 2 or a multiple of 4 chips; in two dimensions a power of 2."""
    if not 1 <= chips <= generation.most_chips:
        return None
    axes = [n for n in range(1, chips + 1) if chips % n == 0 and (n in (1, 2) or n % 4 == 0)]
    if generation.torus == 2:
        axes = [n for n in axes if n & (n - 1) == 0]
        shapes = [(a, b) for a, b in itertools.product(axes, axes) if a * b == chips and a <= b <= 2 * a]
    else:
        shapes = [s for s in itertools.product(axes, repeat=3) if s[0] * s[1] * s[2] == chips and s[0] <= s[1] <= s[2]]
        # A slice within one host lies flat: 2x2x1, not 1x2x2.
        shapes = [s[::-1] for s in shapes] if chips <= 4 else shapes
    return min(shapes, key=lambda s: (max(s) - min(s), s), default=None)


def _made(generation: Generation, shape: tuple[int, ...]) -> Chip:
    chips = 1
    for n in shape:
        chips *= n
    number = chips * (generation.cores_per_chip if generation.named_by == "cores" else 1)
    return Chip(
        name=f"{generation.name}-{number}",
        generation=generation,
        shape=shape,
        chips=chips,
        cores=chips * generation.cores_per_chip,
        replicas=chips * generation.replicas_per_chip,
    )


def _sized_example(generation: Generation) -> str:
    return f"{generation.name}:{'2x2' if generation.torus == 2 else '2x2x1'}"
