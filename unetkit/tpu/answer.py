"""What is known about one tried configuration: the answer of `inspect`, of the batch tuner and of the arithmetic model.

One schema for all of them, written as JSON by `Answer.to_dict` and read back by `Answer.from_dict`. Everything about
memory and time is *per core*, since every core runs the same program; `images_per_second` is of the whole slice.
Shares are of 1.0. `None` means unknown, never zero and never -1.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

Source = Literal["compiled", "compiler_oom", "compiler_crash", "interpolated", "model", "executable"]
"""Where an answer comes from.

`compiled`: the TPU compiler's own figures. `compiler_oom`: the compiler refused the program for its size.
`compiler_crash`: the compiler died or failed; `failure` says how. `interpolated`: between two compiled batches.
`model`: the arithmetic model. `executable`: the memory figures of the executable on an attached TPU.
"""

Pass = Literal["forward", "backward", "update", "other"]
"""Part of the step: `update` is the optimizer, `other` is what carries no layer's name (losses, copies, reductions)."""

BufferKind = Literal["weight", "optimizer", "activation", "gradient", "input", "output", "constant", "other"]

EstimatedFrom = Literal["cycles", "bytes", "links", "model"]
"""What the time of an operation rests on: the compiler's cycles, bytes over bandwidth, the links between chips, or arithmetic."""


@dataclass(frozen=True, kw_only=True)
class Hbm:
    """Bytes of one core's high-bandwidth memory.

    `peak_bytes` is the highest sum alive at once, with tile padding; where a program does not fit it is what the
    compiler says is needed. `argument_bytes` holds weights, optimizer state and the batch.
    """

    limit_bytes: int | None = None
    peak_bytes: int | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    alias_bytes: int | None = None
    temp_bytes: int | None = None
    code_bytes: int | None = None
    weight_bytes: int | None = None
    optimizer_bytes: int | None = None
    input_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Tile padding of what is alive at the peak; `ratio` is padded over unpadded bytes (1.0 = none)."""

    ratio: float | None = None
    peak_padded_bytes: int | None = None
    peak_unpadded_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One optimizer step, as estimated.

    `mxu_utilization`: FLOPs of the program over what one core's matrix unit could do in that time.
    `estimated_from_bytes_share`: share of the time that the compiler gave no cycles for.
    """

    estimated_ms: float | None = None
    images_per_second: float | None = None
    images_per_second_per_chip: float | None = None
    mxu_utilization: float | None = None
    estimated_from_bytes_share: float | None = None
    cycles: int | None = None
    flops: float | None = None
    bytes_accessed: float | None = None


@dataclass(frozen=True, kw_only=True)
class Category:
    """A row of the op profile, under XProf's name. `wasted_share` = time_share x (1 - max(flops, HBM utilisation))."""

    name: str
    time_share: float
    ms: float
    operations: int
    flops_utilization: float | None = None
    hbm_utilization: float | None = None
    wasted_share: float | None = None
    estimated_from_bytes_share: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One instruction inside a fusion.

    `share` is its share of the fusion's arithmetic time: FLOPs of convolutions over the matrix unit's peak, elements of
    the others over the vector unit's. `layer` is where in the model it comes from. `fill`, of a convolution, is the share
    of the matrix unit's work that is of use, and `why` says what the rest is lost to (see `unetkit.tpu.fill`).
    """

    opcode: str
    kind: Literal["convolution", "element-wise", "reduction", "data movement"]
    shape: str
    layer: str | None = None
    count: int = 1
    flops: float | None = None
    share: float | None = None
    fill: float | None = None
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One instruction of the compiled step; `name` is the compiler's (`fusion.12`), as XProf shows it."""

    name: str
    category: str
    ms: float
    time_share: float
    shape: str
    layer: str | None = None
    in_pass: Pass = "other"
    estimated_from: EstimatedFrom = "cycles"
    flops: float | None = None
    bytes_accessed: float | None = None
    flops_utilization: float | None = None
    hbm_utilization: float | None = None
    wasted_share: float | None = None
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Level:
    """Time of one level of the U-Net (`level 0` is the full resolution; other models: their layers) in one pass."""

    name: str
    in_pass: Pass
    ms: float
    time_share: float
    flops_utilization: float | None = None
    wasted_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A buffer alive at the peak. `shape` as `f32[16,256,256,64]`, `layout` as `{3,0,2,1:T(8,128)}`.

    `count` > 1 stands for that many small buffers folded into one row, whose bytes are sums.
    """

    kind: BufferKind
    shape: str
    layout: str | None
    unpadded_bytes: int
    padded_bytes: int
    layer: str | None = None
    instruction: str | None = None
    count: int = 1

    @property
    def expansion(self) -> float | None:
        """Padded over unpadded bytes; None for a buffer that holds nothing."""
        return self.padded_bytes / self.unpadded_bytes if self.unpadded_bytes else None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Bytes alive over the program's order. The sequences have one length; `peak` indexes them."""

    positions: tuple[int, ...]
    padded_bytes: tuple[int, ...]
    unpadded_bytes: tuple[int, ...]
    instructions: tuple[str, ...]
    peak: int


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A change that was tried: `quantity` went from `before` to `after`, by asking as `tried` says."""

    text: str
    quantity: str
    before: float
    after: float
    tried: Literal["compiled", "model", "arithmetic"]


DETAILS = ("categories", "operations", "levels", "buffers", "buffers_from", "curve", "advice", "versions")
"""Fields of an answer that a row of a table leaves out."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One tried configuration and all that is known about it.

    `buffers_from` says how the buffers of a program that does not fit were found; `failure` holds the compiler's own
    words when it refused or died; `notes` are sentences the reader needs to judge the figures.
    """

    name: str
    chip: str
    chips: int
    cores: int
    replicas: int
    global_batch: int | None
    per_core_batch: int | None
    source: Source
    program: str
    fits: bool | None = None
    accumulation: int = 1
    precision: str = "float32"
    remat: str = "none"
    lowering: str = "plain"
    packing: str = "none"
    image: tuple[int, ...] = ()
    hbm: Hbm = Hbm()
    padding: Padding = Padding()
    step: Step = Step()
    categories: tuple[Category, ...] = ()
    operations: tuple[Operation, ...] = ()
    levels: tuple[Level, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    buffers_from: str | None = None
    curve: Curve | None = None
    advice: tuple[Advice, ...] = ()
    failure: str | None = None
    notes: tuple[str, ...] = ()
    fingerprint: str | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers, ready for `json.dumps`."""
        return _plain(self)

    def brief(self) -> dict[str, Any]:
        """As `to_dict`, without the lists of operations and buffers: a row among many."""
        return {name: value for name, value in self.to_dict().items() if name not in DETAILS}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Answer:
        """The inverse of `to_dict`. A key that is not a field is an error of the caller (TypeError)."""
        return _rebuild(cls, plain)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _rebuild(hint: Any, plain: Any) -> Any:
    if plain is None:
        return None
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return hint(**{k: _rebuild(hints.get(k, Any), v) for k, v in plain.items()})
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return _rebuild(next(a for a in typing.get_args(hint) if a is not type(None)), plain)
    if typing.get_origin(hint) is tuple:
        return tuple(_rebuild(typing.get_args(hint)[0], v) for v in plain)
    return plain
