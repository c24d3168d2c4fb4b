"""What tile arithmetic alone can promise of arrays whose layouts are known; `trials` asks the compiler about whole recipes.

The bytes of an array in a layout follow from its tiles, so these changes are tried by computing them again, and told only
if the number they name came out lower.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from unetkit.shapes import round_up
from unetkit.tpu import tiles
from unetkit.tpu.answer import Advice, Buffer
from unetkit.tpu.tiles import LANES, SUBLANES, Tiled

WORTH = 0.98
"""A change is told only if it brings the quantity below this share of what it was."""


def of_buffers(buffers: Sequence[Buffer]) -> tuple[Advice, ...]:
    """What other sizes, items or orders of the listed buffers would take, by tile arithmetic, best first."""
    arrays = [
        tiles.parse(f"{b.shape}{b.layout}") for b in buffers if b.count == 1 and b.layout and ":T" in b.layout and ", " not in b.shape
    ]
    tried = [*_fewer_rows(arrays), *_half_precision(arrays), *_wider_channels(arrays), *_other_order(arrays)]
    return tuple(sorted((a for a in tried if a.after < WORTH * a.before), key=lambda a: a.after / a.before))


def of_shortage(required: int | None, available: int | None) -> tuple[Advice, ...]:
    """By how much the batch must shrink, taking what is required to grow with it."""
    if not required or available is None or required <= available:
        return ()
    share = available / required
    return (
        Advice(
            text=f"use at most {int(100 * share)} % of this batch per core, rounded down to a multiple of {SUBLANES}: what is needed grows "
            f"with the batch, in steps of {SUBLANES} images per core",
            quantity="bytes required",
            before=required,
            after=required * int(100 * share) / 100,
            tried="arithmetic",
        ),
    )


def _listed(group: Sequence[Tiled]) -> str:
    return f"{len(group)} listed buffers" if len(group) > 1 else "listed buffer"


def _total(arrays: Iterable[Tiled]) -> int:
    return sum(array.padded_bytes for array in arrays)


def _resized(array: Tiled, dimension: int, size: int) -> Tiled:
    """The same array with another size of one dimension, its tile as tall as before."""
    return Tiled(array.dtype, (*array.shape[:dimension], size, *array.shape[dimension + 1 :]), array.order, array.tiles, array.space)


def _is_image(array: Tiled) -> bool:
    """Whether batch and channels (first and last dimension) share the tile, as the compiler lays out convolutions."""
    return len(array.shape) >= 4 and {array.lanes, array.sublanes} == {0, len(array.shape) - 1}


def _fewer_rows(arrays: Sequence[Tiled]) -> Iterator[Advice]:
    """A batch just above a multiple of the tile's rows is rounded up to the next one."""
    groups = defaultdict(list)
    for array in arrays:
        if _is_image(array) and array.sublanes == 0 and array.shape[0] > SUBLANES and array.shape[0] % SUBLANES:
            groups[array.shape[0]].append(array)
    for batch, group in groups.items():
        fewer, same = batch // SUBLANES * SUBLANES, round_up(batch, SUBLANES)
        yield Advice(
            text=f"a batch of {batch} per core is padded to {same}: take {same} for the same memory, or {fewer} for less",
            quantity=f"bytes of the {_listed(group)} of batch {batch}, at batch {fewer}",
            before=_total(group),
            after=_total(_resized(array, 0, fewer) for array in group),
            tried="arithmetic",
        )


def _wider_channels(arrays: Sequence[Tiled]) -> Iterator[Advice]:
    """Channels in the lanes are rounded up to 128, so those between 64 and 128 waste up to half of them."""
    groups = defaultdict(list)
    for array in arrays:
        if _is_image(array) and array.lanes == len(array.shape) - 1 and array.shape[-1] >= LANES // 2 and array.shape[-1] % LANES:
            groups[array.shape[-1]].append(array)
    for channels, group in groups.items():
        wide = round_up(channels, LANES)
        unpadded = sum(array.unpadded_bytes for array in group)
        yield Advice(
            text=f"{channels} channels lie in {wide} lanes: {wide} channels would take the same bytes in these buffers",
            quantity=f"expansion of the {_listed(group)} of {channels} channels",
            before=_total(group) / unpadded,
            after=_total(group) / (unpadded * wide / channels),
            tried="arithmetic",
        )


def _half_precision(arrays: Sequence[Tiled]) -> Iterator[Advice]:
    """16-bit items are packed two to a word."""
    group = [array for array in arrays if array.dtype == "f32" and len(array.shape) >= 4]
    if group:
        half = [Tiled("bf16", array.shape, array.order, (_packed(array.tiles[0]), (2, 1))) for array in group if len(array.tiles[0]) == 2]
        yield Advice(
            text="compute in bfloat16 (training.precision: mixed_bfloat16): its items are packed two to a word",
            quantity=f"bytes of the {_listed(half)} in float32",
            before=_total(array for array in group if len(array.tiles[0]) == 2),
            after=_total(half),
            tried="arithmetic",
        )


def _packed(tile: tuple[int, ...]) -> tuple[int, ...]:
    """The 16-bit tile that stands where a 32-bit one stood: at least two words' rows high."""
    return (max(2, tile[0]), *tile[1:])


def _other_order(arrays: Sequence[Tiled]) -> Iterator[Advice]:
    """An array that is no image keeps the order its program gives it, and a short last dimension fills the lanes badly."""
    for array in {array: None for array in arrays if not _is_image(array) and len(array.shape) >= 2 and len(array.tiles[0]) == 2}:
        best = min(_orders(array), key=lambda other: (other.padded_bytes, other.order))
        lanes, rows = array.shape[array.lanes], array.shape[array.sublanes]
        yield Advice(
            text=f"{array} keeps {lanes} in {LANES} lanes and {rows} in the rows: as {best}, with {best.shape[best.lanes]} in the lanes "
            f"and {best.shape[best.sublanes]} in the rows, it is {array.padded_bytes / best.padded_bytes:.3g}x smaller; "
            "transpose it, or merge its short dimensions",
            quantity="bytes of this buffer",
            before=array.padded_bytes,
            after=best.padded_bytes,
            tried="arithmetic",
        )


def _orders(array: Tiled) -> Iterator[Tiled]:
    """The array with each pair of dimensions minor-most, in tiles of the same generation's kind."""
    for lanes, rows in itertools.permutations(range(len(array.shape)), 2):
        others = [dimension for dimension in array.order if dimension not in (lanes, rows)]
        yield tiles.place(array.dtype, array.shape, (lanes, rows, *others), "v3")
