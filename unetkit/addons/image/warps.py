"""Rotation, translation, warping by a flow field, and cutout."""

from collections.abc import Sequence

from keras import ops

from unetkit.addons.image.batches import of_any_rank, pair
from unetkit.errors import UserError


@of_any_rank
def rotate(images, angles, interpolation: str = "nearest", fill_mode: str = "constant", name=None, fill_value: float = 0.0):
    """Turns images counterclockwise about their centre.

    Args:
        images: (h, w), (h, w, c) or (b, h, w, c).
        angles: in radians; one, or one per image, (b,).
        interpolation: nearest or bilinear.
        fill_mode: constant, reflect, wrap or nearest: what lies outside of the image.
        name: taken, for old calls, and not used.
        fill_value: that, with constant.

    Returns:
        Shape and dtype of the images.
    """
    angles = ops.reshape(ops.cast(angles, "float32"), (-1,))
    height, width = images.shape[1] - 1, images.shape[2] - 1
    cos, sin = ops.cos(angles), ops.sin(angles)
    right = (width - (cos * width - sin * height)) / 2
    down = (height - (sin * width + cos * height)) / 2
    return projected(images, (cos, -sin, right, sin, cos, down), interpolation, fill_mode, fill_value)


@of_any_rank
def translate(images, translations, interpolation: str = "nearest", fill_mode: str = "constant", name=None, fill_value: float = 0.0):
    """Moves images.

    Args:
        images: (h, w), (h, w, c) or (b, h, w, c).
        translations: pixels to the right and down, (2,), or (b, 2).
        interpolation, fill_mode, name, fill_value: as for `rotate`.

    Returns:
        Shape and dtype of the images.
    """
    moved = ops.reshape(ops.cast(translations, "float32"), (-1, 2))
    one, zero = ops.ones_like(moved[:, 0]), ops.zeros_like(moved[:, 0])
    return projected(images, (one, zero, -moved[:, 0], zero, one, -moved[:, 1]), interpolation, fill_mode, fill_value)


def projected(images, matrix: Sequence, interpolation: str, fill_mode: str, fill_value: float):
    """(b, h, w, c) looked up at x' = a x + b y + c, y' = d x + e y + f for matrix = (a, .., f), each (1,) or (b,)."""
    zero = ops.zeros_like(matrix[0])
    transforms = ops.stack([*matrix, zero, zero], axis=-1)  # 1 8, or b 8
    return ops.image.affine_transform(
        images,
        ops.broadcast_to(transforms, (images.shape[0], 8)),
        interpolation=interpolation,
        fill_mode=fill_mode,
        fill_value=fill_value,
        data_format="channels_last",
    )


def dense_image_warp(image, flow, name=None):
    """output[b, y, x] = image[b, y - flow[b, y, x, 0], x - flow[b, y, x, 1]], bilinear; outside lies the nearest pixel.

    Args:
        image: (b, h, w, c), float, 2 x 2 pixels at least.
        flow: (b, h, w, 2), rows and columns.
        name: taken, for old calls, and not used.

    Returns:
        (b, h, w, c) of the image's dtype.

    Raises:
        UserError: another shape.
    """
    image, flow = ops.convert_to_tensor(image), ops.convert_to_tensor(flow)
    if len(image.shape) != 4 or min(image.shape[1:3]) < 2 or tuple(flow.shape) != (*image.shape[:3], 2):
        raise UserError(
            f"dense_image_warp: takes an image (b, h, w, c) of 2 x 2 pixels at least and a flow (b, h, w, 2), "
            f"but was given {tuple(image.shape)} and {tuple(flow.shape)}."
        )
    batch, height, width, channels = image.shape
    floors, shares = [], []
    for axis, side in enumerate((height, width)):
        place = ops.cast(ops.arange(side), flow.dtype)
        place = (place[None, :, None] if axis == 0 else place[None, None, :]) - flow[..., axis]  # b h w
        floor = ops.clip(ops.floor(place), 0, side - 2)
        floors.append(ops.cast(floor, "int32"))
        shares.append(ops.cast(ops.clip(place - floor, 0, 1), image.dtype)[..., None])
    flat = ops.reshape(image, (batch * height * width, channels))
    first = ops.reshape(ops.arange(batch) * (height * width), (batch, 1, 1))  # of each image in `flat`

    def at(down: int, right: int):
        return ops.take(flat, first + (floors[0] + down) * width + floors[1] + right, axis=0)

    upper = at(0, 0) + shares[1] * (at(0, 1) - at(0, 0))
    lower = at(1, 0) + shares[1] * (at(1, 1) - at(1, 0))
    return upper + shares[0] * (lower - upper)


def cutout(images, mask_size: int | Sequence[int], offset=(0, 0), constant_values=0):
    """Fills a rectangle (DeVries and Taylor 2017).

    Args:
        images: (b, h, w, c).
        mask_size: rows and columns of the rectangle, even, or one number for both.
        offset: its centre, (row, column), or one per image, (b, 2). What reaches over the edge is cut off.
        constant_values: what it is filled with.

    Returns:
        Shape and dtype of the images.

    Raises:
        UserError: a rectangle with an odd side, or images of another rank.
    """
    images = ops.convert_to_tensor(images)
    sides = pair("cutout", "mask_size", mask_size)
    if any(side % 2 for side in sides):
        raise UserError(f"cutout: mask_size={mask_size!r} must be even, so that the rectangle has its centre between pixels.")
    if len(images.shape) != 4:
        raise UserError(f"cutout: takes images (b, h, w, c), but was given {tuple(images.shape)}.")
    centres = ops.reshape(ops.cast(offset, "int32"), (-1, 2, 1))
    inside = []
    for axis, side in enumerate(sides):
        place = ops.cast(ops.arange(images.shape[1 + axis]), "int32")[None] - centres[:, axis]  # b h, or b w
        inside.append(ops.logical_and(place >= -(side // 2), place < side // 2))
    hole = ops.logical_and(inside[0][:, :, None], inside[1][:, None, :])[..., None]  # b h w 1
    return ops.where(hole, ops.cast(constant_values, images.dtype), images)
