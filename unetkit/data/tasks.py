"""What makes the input of a pair from a single image. Each takes and gives (h, w, c) float32 in [-1, 1]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from unetkit.data.decode import LUMA
from unetkit.data.geometry import RESAMPLE
from unetkit.recipe import schema


def colorize(task: schema.Colorize, image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The image in grey, in as many channels as it had; alpha stays."""
    if image.shape[-1] == 1:
        return image
    grey = image.copy()
    grey[..., :3] = image[..., :3] @ np.asarray(LUMA, np.float32)[:, None]
    return grey


def super_resolve(task: schema.SuperResolve, image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The image made `factor` times smaller (rounded, at least one pixel) and as large as before, both bicubic."""
    height, width = image.shape[:2]
    small = (max(1, round(width / task.factor)), max(1, round(height / task.factor)))
    return _resized(image, small, (width, height))


def enlarge(image: np.ndarray, factor: int) -> np.ndarray:
    """(h, w, c) -> (factor x h, factor x w, c), bicubic: what a network trained by `super_resolve` takes of a small image."""
    return image if factor == 1 else _resized(image, (image.shape[1] * factor, image.shape[0] * factor))


def _resized(image: np.ndarray, *sizes: tuple[int, int]) -> np.ndarray:
    """An image brought to one (width, height) after the other, bicubic, each channel by itself."""
    planes = [Image.fromarray(np.ascontiguousarray(image[..., i])) for i in range(image.shape[-1])]
    for size in sizes:
        planes = [plane.resize(size, RESAMPLE) for plane in planes]
    return np.stack([np.asarray(plane) for plane in planes], axis=-1).clip(-1, 1)


def denoise(task: schema.Denoise, image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The image with Gaussian noise on every channel but alpha, clipped to the range (which is 2 wide)."""
    noisy = image.copy()
    colour = noisy[..., :3]
    colour += 2 * task.sigma * random.standard_normal(colour.shape, dtype=np.float32)
    colour.clip(-1, 1, out=colour)
    return noisy


def inpaint(task: schema.Inpaint, image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The image with a hole somewhere, `share` of each side long (at least one pixel), in mid-grey; its alpha is transparent."""
    sides = [max(1, round(task.share * side)) for side in image.shape[:2]]
    top, left = (int(random.integers(side - hole + 1)) for side, hole in zip(image.shape[:2], sides, strict=True))
    masked = image.copy()
    hole = masked[top : top + sides[0], left : left + sides[1]]
    hole[..., :3] = 0
    hole[..., 3:] = -1
    return masked


TASKS: dict[str, Callable[[Any, np.ndarray, np.random.Generator], np.ndarray]] = {
    "colorize": colorize,
    "super_resolve": super_resolve,
    "denoise": denoise,
    "inpaint": inpaint,
}


def maker(data: schema.Data) -> Callable[[np.ndarray, np.random.Generator], np.ndarray] | None:
    """What makes the input from an image, or None where the source holds pairs already."""
    if not isinstance(data.source, schema.Folder):
        return None
    task = data.source.task
    make = TASKS[task.kind]
    return lambda image, random: make(task, image, random)
