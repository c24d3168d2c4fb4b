"""Shapes, layouts and tiles as XLA:TPU writes them, and the bytes they take: `f32[16,256,256,64]{3,0,2,1:T(8,128)}`.

A TPU keeps an array as tiles of 8 rows (sublanes) of 128 32-bit words (lanes), and packs 16-bit and 8-bit items two and
four to a word. Only the two minor-most dimensions *of the layout* are rounded up to a tile: memory is lost where the
dimension in the lanes is not a multiple of 128, or the one in the sublanes not a multiple of the tile's rows.

The rules of `default_tile` are what libtpu 0.0.52 gave for 8-, 16- and 32-bit arrays of ranks 0 to 4 on v2 to tpu7x. The
meaning of a list of tiles is that of XLA's "tiled layout" document: a tile splits the minor-most dimensions into (how
many, tile), and the next tile is applied to the result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from unetkit.errors import UserError

LANES = 128
SUBLANES = 8

_F8 = ("f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4", "f8e8m0fnu")

ITEM_BITS = {
    **dict.fromkeys(("s2", "u2"), 2),
    **dict.fromkeys(("s4", "u4", "f4e2m1fn"), 4),
    **dict.fromkeys(("pred", "s8", "u8", *_F8), 8),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 16),
    **dict.fromkeys(("s32", "u32", "f32"), 32),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 64),
    "c128": 128,
}

# The fewest 32-bit rows a tile may have. The first two generations move no less than 1 KiB at a time.
_FEWEST_ROWS = {"v2": 2, "v3": 2}

_SHAPE = re.compile(
    rf"\b(?P<dtype>{'|'.join(sorted(ITEM_BITS, key=len, reverse=True))})\[(?P<shape>[\d,\s<=]*)\]"
    r"(?:\{(?P<order>[\d,\s]*)(?::(?P<attributes>(?:[A-Z]+\([^)]*\)|\(\d[\d,]*\))*))?\})?"
)
_TILES = re.compile(r"T((?:\([\d,\s]+\))+)")
_SPACE = re.compile(r"S\((\d+)\)")


@dataclass(frozen=True)
class Tiled:
    """One array as the compiler placed it.

    Args:
        dtype: XLA's name of the item type, as `f32`, `bf16`, `s32`, `pred`.
        shape: Logical sizes.
        order: Dimensions from minor-most to major-most, as inside XLA's braces.
        tiles: Tiles, outermost first; none means that nothing is rounded up.
        space: Memory space: 0 is HBM, 1 VMEM on the generations that have it as such.
    """

    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...] = ()
    space: int = 0

    @property
    def unpadded_bytes(self) -> int:
        """Bytes of the items alone."""
        return -(-math.prod(self.shape) * ITEM_BITS[self.dtype] // 8)

    @property
    def padded_bytes(self) -> int:
        """Bytes with every tile filled up."""
        sizes = [self.shape[dimension] for dimension in reversed(self.order)]
        for tile in self.tiles:
            sizes = [1] * (len(tile) - len(sizes)) + sizes
            kept = len(sizes) - len(tile)
            sizes = sizes[:kept] + [-(-size // step) for size, step in zip(sizes[kept:], tile, strict=True)] + list(tile)
        return -(-math.prod(sizes) * ITEM_BITS[self.dtype] // 8)

    @property
    def expansion(self) -> float:
        """Padded over unpadded bytes; 1.0 where nothing is lost, and for an array without items."""
        return self.padded_bytes / self.unpadded_bytes if self.unpadded_bytes else 1.0

    @property
    def layout(self) -> str:
        """Layout and tiles without the braces: `3,0,2,1:T(8,128)`."""
        attributes = "T" + "".join(f"({','.join(map(str, tile))})" for tile in self.tiles) if self.tiles else ""
        attributes += f"S({self.space})" if self.space else ""
        return ",".join(map(str, self.order)) + (f":{attributes}" if attributes else "")

    @property
    def lanes(self) -> int | None:
        """The dimension that lies in the 128 lanes; None for a scalar."""
        return self.order[0] if self.order else None

    @property
    def sublanes(self) -> int | None:
        """The dimension that lies in the sublanes; None below rank 2."""
        return self.order[1] if len(self.order) > 1 else None

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{{{self.layout}}}"


def find(text: str) -> Iterator[Tiled]:
    """Every array shape in a text, in order; those inside a tuple one by one. No layout written means row-major."""
    for match in _SHAPE.finditer(text):
        shape = tuple(int(size.strip().lstrip("<=")) for size in match["shape"].split(",") if size.strip())
        order = match["order"]
        dimensions = tuple(map(int, order.split(","))) if order and order.strip() else tuple(range(len(shape)))[::-1]
        if sorted(dimensions) != list(range(len(shape))):
            raise UserError(f"the layout of {match[0]} does not name each of its {len(shape)} dimensions once")
        attributes = match["attributes"] or ""
        tiles, space = _TILES.search(attributes), _SPACE.search(attributes)
        yield Tiled(
            dtype=match["dtype"],
            shape=shape,
            order=dimensions,
            tiles=tuple(tuple(map(int, tile.split(","))) for tile in tiles[1][1:-1].split(")(")) if tiles else (),
            space=int(space[1]) if space else 0,
        )


def parse(text: str) -> Tiled:
    """The one array shape that a text is.

    Raises:
        UserError: The text is not one array shape in XLA's notation.
    """
    found = list(find(text))
    if len(found) != 1 or not _SHAPE.fullmatch(text.strip()):
        raise UserError(f"{text!r} is not one array shape; expected XLA's notation, as f32[16,256,256,64]{{3,0,2,1:T(8,128)}}")
    return found[0]


def default_tile(dtype: str, sizes: tuple[int, ...], generation: str) -> tuple[tuple[int, ...], ...]:
    """The tile the compiler gives an array.

    Args:
        dtype: XLA's item type.
        sizes: The sizes in layout order, minor-most *last*.
        generation: `v2`, `v3`, `v4`, `v5e`, `v5p`, `v6e` or `tpu7x`.

    Few rows take a small tile (1, 2 or 4 words high, from 2 on v2 and v3). Tiles of 16 rows of bf16 (tpu7x) and 32 of
    8-bit items (from v4) are taken only where they divide the rows, so they never cost more bytes than 8 rows would.
    """
    packed = max(1, 32 // ITEM_BITS[dtype])
    least = _FEWEST_ROWS.get(generation, 1) * packed
    inner = ((packed, 1),) if packed > 1 else ()
    if len(sizes) < 2:
        rows = _power_of_two(-(-(sizes[0] if sizes else 1) // LANES), least, max(least, SUBLANES))
        return ((rows * LANES,), *(((LANES,), *inner) if inner and sizes else ()))
    tall = max(least, SUBLANES * (packed if generation == "tpu7x" or (packed == 4 and generation not in _FEWEST_ROWS) else 1))
    if sizes[-2] % tall == 0:
        return ((tall, LANES), *inner)
    return ((_power_of_two(sizes[-2], least, max(least, SUBLANES)), LANES), *inner)


def place(dtype: str, shape: tuple[int, ...], order: tuple[int, ...], generation: str) -> Tiled:
    """An array in a layout of one's own choice, with the tile the compiler would give it there."""
    sizes = tuple(shape[dimension] for dimension in reversed(order))
    return Tiled(dtype, shape, order, default_tile(dtype, sizes, generation))


def _power_of_two(size: int, least: int, most: int) -> int:
    """The smallest power of two that holds `size`, kept in [least, most]."""
    return min(most, max(least, 1 << max(0, size - 1).bit_length()))
