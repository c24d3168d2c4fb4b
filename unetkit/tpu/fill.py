"""Why a convolution cannot use the whole matrix unit: channels narrower than it, and zeros that are multiplied.

A matrix unit of n x n holds one tile of the kernel: n of the channels that are contracted by n of the channels that come
out. Fewer channels leave the rest of it idle, unless the compiler packs several positions of the kernel into one tile, which
it can do for the channels that go in. A transposed convolution puts zeros between its inputs and multiplies them like any
other number. The product of these shares bounds the FLOPs of use per FLOP that the unit could do.
"""

from __future__ import annotations

from unetkit.shapes import round_up
from unetkit.tpu.hlo import Convolution


def matrix_fill(sizes: Convolution, side: int) -> tuple[float, str | None]:
    """Largest share of the matrix unit's work that can be of use, and in words what the rest is lost to (None: nothing).

    Args:
        sizes: of the convolution. Of a kernel's gradient both channel counts come out, and images and pixels are contracted.
        side: of the matrix unit, 128 or 256.
    """
    inputs = sizes.rows if sizes.is_gradient_of_kernel else sizes.features
    outputs = _filled(sizes.outputs, side)
    packed = max(_filled(inputs * positions, side) for positions in range(1, sizes.taps + 1))
    share, lost = outputs * packed, []
    if _filled(inputs, side) < 1:
        packing = f" (at most {packed:.0%} with kernel positions packed)" if packed > _filled(inputs, side) else ""
        lost.append(f"{_channels(inputs)} in fill {_filled(inputs, side):.0%} of {_sides(inputs, side)} rows{packing}")
    if outputs < 1:
        lost.append(f"{_channels(sizes.outputs)} out fill {outputs:.0%} of {_sides(sizes.outputs, side)} columns")
    if sizes.dilated:
        share *= sizes.meetings / sizes.positions
        lost.append(f"{1 - sizes.meetings / sizes.positions:.0%} of the products have a zero put between the inputs")
    return share, "; ".join(lost) or None


def _filled(channels: int, side: int) -> float:
    return channels / round_up(channels, side)


def _sides(channels: int, side: int) -> str:
    """`128`, or `2 x 128` where the unit must be filled that many times."""
    times = round_up(channels, side) // side
    return f"{times} x {side}" if times > 1 else f"{side}"


def _channels(count: int) -> str:
    return "1 channel" if count == 1 else f"{count} channels"
