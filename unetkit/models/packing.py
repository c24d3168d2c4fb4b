"""Which level of a U-Net is packed how, and the layers between levels that are packed differently."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from unetkit.blocks import checks
from unetkit.blocks.base import Downsample, Upsample
from unetkit.blocks.conversion import Pack, Unpack
from unetkit.blocks.packed_pool import halves
from unetkit.blocks.packing import Layout
from unetkit.errors import UserError
from unetkit.shapes import AXES

Block = tuple[int, ...]


def read_packing(packing: Sequence[Sequence[int]], input_shape: Sequence[int], levels: int) -> tuple[Block | None, ...]:
    """One block per level, None where a level stays plain.

    Args:
        packing: blocks as the user wrote them, outermost first; the levels after the last one are plain.
        input_shape: (height, width, channels).
        levels: how many the network has.

    Raises:
        UserError: more blocks than levels, or one that is not a whole number of pixels per axis.
    """
    if len(packing) > levels:
        raise UserError(f"packing: {len(packing)} blocks for {levels} levels; leave out the last {len(packing) - levels}.")
    rank, blocks = len(input_shape) - 1, []
    for number in range(levels):
        where = f"packing[{number}]"
        block = packing[number] if number < len(packing) else (1,) * rank
        if isinstance(block, int) or len(block) != rank:
            raise UserError(f"{where}: {block!r} must be {rank} numbers, pixels per axis ({', '.join(AXES[-rank:])}).")
        block = tuple(checks.count("UNet", where, pixels) for pixels in block)
        image = tuple(side >> number for side in input_shape[:-1])
        if not Layout(block, (1,)).divides(image):
            shown, size = (" x ".join(map(str, sides)) for sides in (block, image))
            warnings.warn(f"{where}: blocks of {shown} pixels do not divide the {size} of this level, which stays plain.", stacklevel=3)
            block = (1,) * rank
        blocks.append(None if math.prod(block) == 1 else block)
    return tuple(blocks)


def convert(x, have: Layout | None, block: Block | None, place: str, dtype):
    """(x in another block, its layout); None is an image."""
    if (have and have.block) == block:
        return x, have
    if have is not None:
        x = Unpack(have, name=f"unpack_{place}", dtype=dtype)(x)
    if block is None:
        return x, None
    return Pack(block, name=f"pack_{place}", dtype=dtype)(x), Layout(block, (x.shape[-1],))


def resample(made: type, x, layout: Layout | None, block: Block | None, name: str, **args: Any):
    """Takes x to the next level: packed where the class takes packed maps, else as an image.

    Args:
        made: a subclass of `Downsample` or `Upsample`.
        x: packed as `layout` says.
        block: of the next level.
        args: of the class, `dtype` among them.

    Returns:
        The result and its layout.
    """
    import os

    if layout is None and block is None and not ("B" in os.environ.get("LP", "") and issubclass(made, Upsample) and made.packs()):
        return made(name=name, **args)(x), None
    if not made.packs() or (layout is not None and issubclass(made, Downsample) and not halves(layout.block)):
        x, _ = convert(x, layout, None, f"before_{name}", args["dtype"])
        return convert(made(name=name, **args)(x), None, block, f"after_{name}", args["dtype"])
    ones = (1,) * (len(x.shape) - 2)
    layout = layout or Layout(ones, (x.shape[-1],))
    layer = made(name=name, layout=layout, out_block=block or ones, **args)
    y = layer(x)
    if block is None:
        return y, None
    parts = (layer.channels,) if issubclass(made, Upsample) else layer.out_parts(layout.parts, y.shape[-1] // math.prod(block))
    return y, Layout(block, parts)
