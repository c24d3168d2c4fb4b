"""Mean, median and Gaussian filters, and sharpness."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from unetkit.addons.image.batches import of_any_rank, pair
from unetkit.errors import UserError

PADDINGS = ("REFLECT", "CONSTANT", "SYMMETRIC")
SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13  # Pillow's SMOOTH filter


@of_any_rank
def mean_filter2d(image, filter_shape: int | Sequence[int] = (3, 3), padding: str = "REFLECT", constant_values=0, name=None):
    """The mean under a window around each pixel.

    Args:
        image: (h, w), (h, w, c) or (b, h, w, c).
        filter_shape: rows and columns of the window, or one number for both.
        padding: REFLECT, CONSTANT or SYMMETRIC: what lies outside of the image.
        constant_values: that, with CONSTANT.
        name: taken, for old calls, and not used.

    Returns:
        Shape and dtype of the image.

    Raises:
        UserError: an unknown padding, or a window that is no window.
    """
    rows, columns = pair("mean_filter2d", "filter_shape", filter_shape)
    return correlate(pad("mean_filter2d", image, (rows, columns), padding, constant_values), np.full((rows, columns), 1 / (rows * columns)))


@of_any_rank
def median_filter2d(image, filter_shape: int | Sequence[int] = (3, 3), padding: str = "REFLECT", constant_values=0, name=None):
    """The median under a window around each pixel (the mean of the two in the middle, where the window has an even number).

    Args, Returns, Raises: as `mean_filter2d`.
    """
    rows, columns = pair("median_filter2d", "filter_shape", filter_shape)
    padded = pad("median_filter2d", image, (rows, columns), padding, constant_values)
    height, width = image.shape[1:3]
    shifted = [padded[:, i : i + height, j : j + width] for i in range(rows) for j in range(columns)]
    ordered = ops.sort(ops.stack(shifted, axis=-1), axis=-1)  # b h w c window
    area = rows * columns
    if area % 2:
        return ordered[..., area // 2]
    return (ordered[..., area // 2 - 1] + ordered[..., area // 2]) / 2


@of_any_rank
def gaussian_filter2d(
    image,
    filter_shape: int | Sequence[int] = (3, 3),
    sigma: float | Sequence[float] = 1.0,
    padding: str = "REFLECT",
    constant_values=0,
    name=None,
):
    """Gaussian blur.

    Args:
        image: (h, w), (h, w, c) or (b, h, w, c).
        filter_shape: rows and columns of the window, or one number for both.
        sigma: standard deviation in pixels, or two: by rows and by columns. Above 0.
        padding: REFLECT, CONSTANT or SYMMETRIC: what lies outside of the image.
        constant_values: that, with CONSTANT.
        name: taken, for old calls, and not used.

    Returns:
        Shape and dtype of the image.

    Raises:
        UserError: an unknown padding, a window that is no window, or a sigma that is not above 0.
    """
    rows, columns = pair("gaussian_filter2d", "filter_shape", filter_shape)
    both = (sigma, sigma) if isinstance(sigma, (int, float)) else tuple(sigma)
    if len(both) != 2 or not all(one > 0 for one in both):
        raise UserError(f"gaussian_filter2d: sigma={sigma!r} must be a number above 0, or two of them: by rows and by columns.")
    window = np.outer(gaussian(rows, both[0]), gaussian(columns, both[1]))
    return correlate(pad("gaussian_filter2d", image, (rows, columns), padding, constant_values), window)


@of_any_rank
def sharpness(image, factor: float, name=None):
    """Blends the image with a smoothed copy of itself, as Pillow's `ImageEnhance.Sharpness`, for values from 0 to 255.

    Args:
        image: (h, w, c) or (b, h, w, c), 3 x 3 pixels at least.
        factor: 0 is the smoothed image, 1 the image, above 1 a sharpened one. As in tensorflow-addons the result is rounded to
            whole numbers but at 0 and 1, and kept within 0 and 255 above 1.
        name: taken, for old calls, and not used.

    Returns:
        Shape and dtype of the image. The outermost pixels are not smoothed.
    """
    if factor == 1:
        return image
    height, width = image.shape[1:3]
    inside = np.zeros((1, height, width, 1), bool)
    inside[:, 1:-1, 1:-1] = True
    smooth = ops.pad(correlate(image, SMOOTH), [[0, 0], [1, 1], [1, 1], [0, 0]])
    smooth = ops.where(inside, smooth, image)
    if factor == 0:
        return smooth
    blended = smooth + factor * (image - smooth)
    return ops.round(blended if 0 < factor < 1 else ops.clip(blended, 0.0, 255.0))


def gaussian(size: int, sigma: float) -> np.ndarray:
    """(size,) weights of sum 1, with the peak on the centre; the right one of the two middle places where the size is even."""
    offsets = np.arange(size) - (size - 1) // 2
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    return weights / weights.sum()


def pad(owner: str, image, window: tuple[int, int], padding: str, constant_values):
    """(b, h, w, c) enlarged so that the window fits around every pixel; an even window reaches one further right and down."""
    if padding.upper() not in PADDINGS:
        raise UserError(f"{owner}: padding={padding!r} is not one of {', '.join(PADDINGS)}.")
    margins = [((side - 1) // 2, side - 1 - (side - 1) // 2) for side in window]
    constant = {"constant_values": constant_values} if padding.upper() == "CONSTANT" else {}
    return ops.pad(image, [(0, 0), *margins, (0, 0)], mode=padding.lower(), **constant)


def correlate(image, window: np.ndarray):
    """The weighted sum under the window, for each channel: (b, h, w, c) -> (b, h - rows + 1, w - columns + 1, c)."""
    channels = image.shape[-1]
    kernel = np.broadcast_to(window[:, :, None, None], (*window.shape, channels, 1))
    return ops.depthwise_conv(image, ops.convert_to_tensor(kernel.copy(), image.dtype), padding="valid", data_format="channels_last")
