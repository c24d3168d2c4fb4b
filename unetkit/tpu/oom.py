"""Out-of-memory texts of TPUs, read: what ran out, by how much, which buffers, and how much of them is padding.

Read are the compiler's refusals (`Ran out of memory in memory space hbm. Used 17.60G of 16.00G hbm`, and the newer
`CompileTimeHbmOom: ... memory required for HLO temporaries (21.32G) exceeds available HBM (7.48G)`), the runtime's
(`Attempting to reserve 3.95G at the bottom of memory`, `Attempting to allocate 8.00M`), and the breakdown and the list of
allocations that may follow. Sizes in such texts are powers of 1024 rounded to two decimals; where a buffer's shape is
printed with its tiles, the exact bytes come from the tiles.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Literal

from unetkit.errors import UserError
from unetkit.tpu import advice, tiles
from unetkit.tpu.answer import Advice, Buffer, BufferKind, Padding

Refused = Literal["program", "temporaries", "cores", "load", "allocation"]

ROUNDED = 0.01
"""Two printed decimals may be this far from the bytes they stand for."""

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?")
_SIZE = r"(\d+(?:\.\d+)?[KMGT]?(?:iB|B)?)"

# (what was refused, the compiler's or the runtime's words, which group is required and which available)
_REFUSALS: tuple[tuple[Refused, re.Pattern[str]], ...] = (
    ("program", re.compile(rf"Ran out of memory in memory space \w+\.?\s+Used (?P<need>{_SIZE}) of (?P<have>{_SIZE})")),
    ("temporaries", re.compile(rf"memory required for [\w ]+ \((?P<need>{_SIZE})\)\s+exceeds\s+available\s+\w+ \((?P<have>{_SIZE})\)")),
    ("cores", re.compile(rf"TensorCore Hbm usage:? (?P<need>{_SIZE}).*?exceeding available bytes:? (?P<have>{_SIZE})", re.S)),
    ("load", re.compile(rf"Attempting to reserve (?P<need>{_SIZE}) at the bottom.*?There are (?P<have>{_SIZE}) free", re.S)),
    ("allocation", re.compile(rf"Attempting to allocate (?P<need>{_SIZE})\..*?There are (?P<have>{_SIZE}) free", re.S)),
)
_SPACE = re.compile(r"memory space (\w+)")
_MODULE = re.compile(r"(?:HLO module: |loading program ')([\w.<>()-]+?)(?=[.']?(?:\s|$|:|'))")
_SECTION = re.compile(
    rf"^\s*(?P<name>reserved|program|arguments|output|global|scoped|overlays|stack|heap allocations|HLO temp)(?: ?\([^)]*\))?\s+{_SIZE}"
    rf"(?:\s*\([\d.]+% utilization(?:: Unpadded \({_SIZE}\) Padded \({_SIZE}\))?)?",
    re.M,
)
_OUTPUT = re.compile(rf"Output size (?P<size>{_SIZE})")
_ALLOCATION = re.compile(r"^[ \t]*(?:\d+\.[ \t]*)?Size:[ \t]*", re.M)
_LOG_PREFIX = re.compile(
    r"^(?:\x1b\[[\d;]*m|> ?|\(pid=[^)]*\) ?|[\d-]{10}[ T][\d:.,]+Z?:? +[A-Z] +(?:\d+ +)?\S+:\d+\] ?|[EWIF]\d{4} [\d:.]+ +\d+ \S+:\d+\] ?)+",
    re.M,
)
_ONE_LINE = re.compile(r" / (?=(?:Operator|Shape|Unpadded size|Extra memory|XLA label|Allocation type)\b)")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One line of the breakdown, as `HLO temp`; its padded and unpadded bytes where the text has them."""

    name: str
    bytes: int
    unpadded_bytes: int | None = None
    padded_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """What an out-of-memory text says.

    Attributes:
        refused: `program` and `temporaries`: the compiler found it too large; `cores`: likewise, TensorCore and SparseCore
            counted apart; `load`: the runtime had no room for the program; `allocation`: nor for one array. None: the
            text holds only a list of allocations.
        space: memory space that ran out, `hbm` or `vmem`.
        required_bytes, available_bytes: None where the text does not say.
        module: the program's name.
        sections: the breakdown, in the text's order.
        buffers: the allocations listed, largest first. The text lists only the largest of them.
        padding: of all temporaries where the text has that line (`padding_of`), else of the listed buffers.
    """

    refused: Refused | None
    space: str
    required_bytes: int | None = None
    available_bytes: int | None = None
    module: str | None = None
    sections: tuple[Section, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    padding: Padding = dataclasses.field(default_factory=Padding)
    padding_of: Literal["all temporaries", "the listed buffers"] | None = None
    advice: tuple[Advice, ...] = ()

    @property
    def exceeded_bytes(self) -> int | None:
        """How much too much; None where the text does not say."""
        return None if self.required_bytes is None or self.available_bytes is None else self.required_bytes - self.available_bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers, ready for `json.dumps`."""
        return {**dataclasses.asdict(self), "exceeded_bytes": self.exceeded_bytes}


def explain(text: str) -> OutOfMemory:
    """Reads an out-of-memory text, with whatever log lines stand around it.

    Raises:
        UserError: nothing of such a text was found; says what was looked for.
    """
    text = _LOG_PREFIX.sub("", text.replace("\\n", "\n"))
    text = _ONE_LINE.sub("\n", text)
    refusal = next(((refused, found) for refused, pattern in _REFUSALS if (found := pattern.search(text))), None)
    head, *allocations = _ALLOCATION.split(text)
    buffers = sorted((buffer for body in allocations if (buffer := _buffer(body))), key=lambda buffer: -buffer.padded_bytes)
    sections = _sections(head)
    if refusal is None and not buffers and not sections:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        raise UserError(
            f"no out-of-memory text of a TPU found in what begins {first[:80]!r}; looked for "
            "'Ran out of memory in memory space hbm. Used ... of ...', 'memory required for HLO temporaries (...) exceeds available "
            "HBM (...)', 'TensorCore Hbm usage: ... exceeding available bytes: ...', 'Attempting to reserve ... at the bottom of "
            "memory', 'Attempting to allocate ... That was not possible', 'Program hbm requirement' and a list of allocations "
            "('Size: ...', 'Shape: ...'). Give the whole message, from the first such line on"
        )
    space, module = _SPACE.search(text), _MODULE.search(text)
    said = OutOfMemory(
        refused=refusal[0] if refusal else None,
        space=space[1] if space else "hbm",
        required_bytes=_bytes(refusal[1]["need"]) if refusal else None,
        available_bytes=_bytes(refusal[1]["have"]) if refusal else None,
        module=module[1] if module else None,
        sections=sections,
        buffers=tuple(buffers),
    )
    padding, padding_of = _padding(said)
    tried = (*advice.of_buffers(said.buffers), *advice.of_shortage(said.required_bytes, said.available_bytes))
    return dataclasses.replace(said, padding=padding, padding_of=padding_of, advice=tried)


def _bytes(text: str) -> int:
    """`17.60G` -> bytes."""
    number, unit = _NUMBER.match(text).groups()
    return round(float(number) * _UNITS[unit])


def _sections(head: str) -> tuple[Section, ...]:
    found = [
        Section(
            name=match["name"],
            bytes=_bytes(match[2]),
            unpadded_bytes=_bytes(match[3]) if match[3] else None,
            padded_bytes=_bytes(match[4]) if match[4] else None,
        )
        for match in _SECTION.finditer(head)
    ]
    output = _OUTPUT.search(head)
    return (*found, Section(name="output", bytes=_bytes(output["size"]))) if output else tuple(found)


def _buffer(body: str) -> Buffer | None:
    """One allocation of the list: the text from behind `Size:` to the next one."""
    size, shape = _NUMBER.match(body), re.search(r"^\s*Shape:\s*(.+)$", body, re.M)
    arrays = list(tiles.find(shape[1])) if shape else []
    if not size or not arrays:
        return None
    stated, unpadded = _bytes(size[0]), re.search(rf"Unpadded size:\s*{_SIZE}", body)
    padded = sum(array.padded_bytes for array in arrays)
    exact = all(array.tiles for array in arrays) and abs(padded - stated) <= ROUNDED * stated
    name = re.search(r'op_name="([^"]+)"', body)
    label, allocation = re.search(r"XLA label:\s*%?([\w.-]+)", body), re.search(r"Allocation type:\s*(.+)$", body, re.M)
    return Buffer(
        kind=_kind(name[1] if name else "", allocation[1] if allocation else ""),
        shape=", ".join(f"{array.dtype}[{','.join(map(str, array.shape))}]" for array in arrays),
        layout=", ".join(f"{{{array.layout}}}" for array in arrays),
        unpadded_bytes=sum(array.unpadded_bytes for array in arrays) if exact or not unpadded else _bytes(unpadded[1]),
        padded_bytes=padded if exact else stated,
        layer=name[1] if name else None,
        instruction=label[1] if label else None,
    )


def _kind(name: str, allocation: str) -> BufferKind:
    """What a buffer is, as far as the framework's name of the operation tells."""
    if "parameter" in allocation.lower() or "argument" in allocation.lower():
        return "input"
    if "output" in allocation.lower():
        return "output"
    if "gradient" in name.lower() or "transpose(jvp" in name:
        return "gradient"
    return "other"


def _padding(said: OutOfMemory) -> tuple[Padding, Any]:
    whole = next((section for section in said.sections if section.padded_bytes), None)
    if whole:
        padded, unpadded, of = whole.padded_bytes, whole.unpadded_bytes, "all temporaries"
    elif said.buffers:
        padded, unpadded = (sum(getattr(buffer, f"{state}_bytes") for buffer in said.buffers) for state in ("padded", "unpadded"))
        of = "the listed buffers"
    else:
        return Padding(), None
    return Padding(ratio=padded / unpadded if unpadded else None, peak_padded_bytes=padded, peak_unpadded_bytes=unpadded), of
