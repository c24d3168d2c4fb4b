"""Integer arithmetic of image sizes: halving and rounding. Pure Python, so that a recipe is checked before any tensor library loads."""

from __future__ import annotations

from unetkit.errors import UserError

AXES = ("height", "width")


def round_up(size: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `size`."""
    return -(-size // multiple) * multiple


def nearest_multiples(size: int, multiple: int) -> tuple[int, ...]:
    """The positive multiples of `multiple` around `size`; only one where `size` is itself a multiple or lies below the first.

    `nearest_multiples(358, 8) == (352, 360)`, `nearest_multiples(64, 128) == (128,)`, `nearest_multiples(16, 8) == (16,)`.
    """
    below, above = size // multiple * multiple, round_up(max(size, 1), multiple)
    return (above,) if below <= 0 or below == above else (below, above)


def as_sides(size: int | tuple[int, ...], rank: int = 2) -> tuple[int, ...]:
    """A size as one side per axis, (height, width) or (width,): one number means a square, or the length of a signal."""
    return (size,) * rank if isinstance(size, int) else tuple(size)


def level_sizes(size: int | tuple[int, ...], halvings: int) -> tuple[tuple[int, ...], ...]:
    """The size at every level, outermost first: `level_sizes(64, 2) == ((64, 64), (32, 32), (16, 16))`.

    Raises:
        UserError: if some side does not halve that often.
    """
    check_halvable(size, halvings)
    return tuple(tuple(side >> level for side in as_sides(size)) for level in range(halvings + 1))


def check_halvable(size: int | tuple[int, ...], halvings: int, what: str = "data.size") -> None:
    """Refuses a size that cannot be halved `halvings` times without a remainder: the skip connections would not meet.

    Args:
        size: one side, or (height, width), in pixels.
        halvings: levels of the network less one.
        what: the recipe key or argument that `size` came from; the message begins with it.

    Raises:
        UserError: naming the size, the number of halvings and the nearest sizes that work.
    """
    sides = as_sides(size)
    multiple = 2**halvings
    bad = {axis: side for axis, side in zip(AXES[-len(sides) :], sides, strict=True) if side < 1 or side % multiple}
    if not bad:
        return
    square = len(set(sides)) == 1
    fixes = []
    for axis, side in bad.items():
        fits = nearest_multiples(side, multiple)
        fixes.append(
            f"{'' if square else f'{axis} {side}: '}the nearest {'sizes that work are' if len(fits) == 2 else 'size that works is'} "
            + " and ".join(map(str, fits))
        )
    shown = str(sides[0]) if square else str(list(sides))
    times = "once" if halvings == 1 else f"{halvings} times"
    raise UserError(
        f"{what}: {shown} cannot be halved {times}, as {halvings + 1} levels need (multiples of {multiple} can); "
        + "; ".join(dict.fromkeys(fixes))
    )


def grown_channels(start: int, depth: int, rate: float) -> tuple[int, ...]:
    """Channels per level of the original network, outermost first: `int(rate * channels)` level by level, 5 by 1.5 is 5, 7, 10, 15."""
    channels = [start]
    for _ in range(depth):
        channels.append(int(rate * channels[-1]))
    return tuple(channels)


def tile_starts(length: int, tile: int, overlap: int, stride: int = 1) -> tuple[int, ...]:
    """Where tiles begin that cover `length`: as few as `overlap` allows, evenly spaced on the grid of `stride`.

    `tile_starts(40, 16, 4, 4) == (0, 12, 24)`; neighbours share at least `overlap`, the last tile ends where the length does.

    Args:
        length: what is to be covered, a multiple of `stride` and at least `tile`.
        tile: length of a tile, a multiple of `stride`.
        overlap: least number of pixels that neighbours share.
        stride: pixels per step of the grid, the total stride of the network.

    Raises:
        UserError: an overlap below 0, or one that leaves no step between tiles.
    """
    step = (tile - overlap) // stride  # in strides, as everything below
    if overlap < 0 or step < 1:
        raise UserError(
            f"overlap: {overlap} does not fit a tile of {tile}: it must be 0 to {tile - stride}, "
            f"so that tiles move on by at least {stride}, the network's total stride"
        )
    room = (length - tile) // stride
    steps = -(-room // step)
    return tuple(stride * ((room * k + steps // 2) // steps) for k in range(steps + 1)) if steps else (0,)
