"""Images of any size for everyone: files to arrays in [-1, 1] and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from unetkit.data import png16
from unetkit.data.decode import MODE, BadImage, read_picture
from unetkit.data.files import list_images
from unetkit.errors import UserError, WorkError
from unetkit.files import replacing

__all__ = ["BadImage", "list_images", "read_image", "write_image"]

# What a file's name ends in -> how it is saved with 8 bits, without loss where the format can
SAVED = {
    ".png": {"format": "PNG"},
    ".jpg": {"format": "JPEG", "quality": 95},
    ".jpeg": {"format": "JPEG", "quality": 95},
    ".webp": {"format": "WEBP", "lossless": True, "exact": True},
    ".bmp": {"format": "BMP"},
    ".tif": {"format": "TIFF", "compression": "tiff_adobe_deflate"},
    ".tiff": {"format": "TIFF", "compression": "tiff_adobe_deflate"},
}

OPAQUE = ("JPEG", "BMP")


def read_image(path: str | Path, channels: int = 3, background: tuple[int, int, int] = (255, 255, 255)) -> np.ndarray:
    """Reads an image as (h, w, channels) float32 in [-1, 1], upright.

    Args:
        path: PNG, JPEG, WebP, BMP, TIFF or GIF (first frame), told by content.
        channels: 1 grey, 3 RGB, 4 RGBA.
        background: 8-bit RGB under transparent pixels; of no effect with 4 channels.

    Raises:
        BadImage: a UserError that names the file and what is wrong with it.
    """
    if channels not in MODE:
        raise UserError(f"{channels} channels asked for; 1 is grey, 3 RGB, 4 RGBA")
    planes = read_picture(path).planes(channels, background)
    pixels = np.stack([np.asarray(plane) for plane in planes], axis=-1) if len(planes) > 1 else np.asarray(planes[0])
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    return (pixels - np.float32(127.5)) / np.float32(127.5)


def write_image(path: str | Path, array: np.ndarray, depth: int = 8) -> None:
    """Writes (h, w) or (h, w, 1|3|4) in [-1, 1]: clipped, then rounded to `depth` bits. The file appears by rename.

    Args:
        path: its ending chooses the format; 16 bits need .png.
        array: values; NaN is refused.
        depth: 8 or 16 bits per channel.

    Raises:
        UserError: an ending, depth or shape that cannot be written.
        WorkError: values that are no numbers.
    """
    path = Path(path)
    ending = path.suffix.lower()
    array = np.asarray(array)
    array = array[..., None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[-1] not in MODE or 0 in array.shape:
        raise UserError(f"{path}: an array of shape {array.shape} is no image; (h, w), (h, w, 1), (h, w, 3) and (h, w, 4) are")
    if depth not in (8, 16):
        raise UserError(f"{path}: {depth} bits per channel cannot be written; 8 and 16 can")
    if ending not in SAVED or (depth == 16 and ending != ".png"):
        known = ".png" if depth == 16 else ", ".join(SAVED)
        raise UserError(f"{path}: no {depth}-bit image can be written as {ending or 'a name without ending'}; known: {known}")
    if SAVED[ending]["format"] in OPAQUE and array.shape[-1] == 4:
        raise UserError(f"{path}: {SAVED[ending]['format']} cannot hold transparency; use .png")
    if np.isnan(array).any():
        raise WorkError(f"{path}: the image to be written holds values that are no numbers (NaN)")
    # float64: float32 could move a value that lies near the middle between two of 65,536 steps
    half = (2**depth - 1) / 2
    pixels = np.rint((array.astype(np.float64).clip(-1, 1) + 1) * half)
    with replacing(path) as stream:
        if depth == 16:
            stream.write(png16.encode(pixels.astype(np.uint16)))
        else:
            image = pixels.astype(np.uint8)
            Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(stream, **SAVED[ending])
