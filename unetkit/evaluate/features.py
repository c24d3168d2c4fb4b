"""Features of images, for distances between sets: one path from any image to what an extractor sees, and two extractors.

The path is the same for both sets: clip to [-1, 1], round to 8 bits, resize to the extractor's size (Pillow's bicubic, which
looks at every pixel when it shrinks), extract. So arrays and the PNG files written from them give the same numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from unetkit.errors import UserError, WorkError
from unetkit.evaluate.score import LUMA

FAR_OUTSIDE = 3.0  # no network that aims at [-1, 1] goes as far; numbers up to 255 do
VALUES = {"bytes": (0.0, 255.0), "zero_to_one": (0.0, 1.0), "minus_one_to_one": (-1.0, 1.0)}


class Extractor(Protocol):
    """Makes features. Numbers compare only where name, version and size are the same."""

    name: str
    version: str
    size: tuple[int, int]

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """(b, h, w, 3) uint8 of `size` -> (b, d) float64."""
        ...


def to_pixels(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(h, w, 1 or 3) in [-1, 1], or uint8 -> (rows, columns, 3) uint8.

    Raises:
        UserError: another shape, or floats of another range.
        WorkError: a value is not finite.
    """
    image = np.asarray(image)
    if image.ndim != 3 or image.shape[-1] not in (1, 3):
        raise UserError(f"an image to compare is (h, w, 1) or (h, w, 3); received {image.shape}")
    if image.dtype != np.uint8:
        values = image.astype(np.float64)
        if not np.isfinite(values).all():
            raise WorkError("an image to compare holds values that are no numbers (NaN or infinite)")
        if np.abs(values).max() > FAR_OUTSIDE:
            raise UserError(f"floats are in [-1, 1], but one is {np.abs(values).max():g}; give bytes from 0 to 255 as uint8")
        image = np.rint((values.clip(-1, 1) + 1) * 127.5).astype(np.uint8)
    color = np.broadcast_to(image, (*image.shape[:2], 3))
    if color.shape[:2] == size:
        return np.array(color)
    return np.asarray(Image.fromarray(np.ascontiguousarray(color)).resize(size[::-1], Image.Resampling.BICUBIC))


class Pyramid:
    """Colour, contrast and edges at three scales: 108 numbers that ship with unetkit and need no network.

    Mean colours of a 4 x 4 grid; and in each quarter of the image, at 64, 32 and 16 pixels, the logarithms of the standard
    deviation of each channel and of the root mean square step of the luma by rows and by columns (squares, for a blurred edge
    climbs as high in smaller steps). It sees blur, wrong colours and
    wrong contrast; it does not know objects. Its numbers compare among themselves only, never with a paper's.
    """

    name, version, size = "unetkit-pyramid", "1", (64, 64)
    # (centre, spread) that bring each kind to about mean 0 and variance 1 over the emoji that ship with unetkit.
    MEAN, CONTRAST, STEP = (0.8, 0.18), (-1.6, 0.7), ((-2.5, 0.5), (-2.2, 0.5), (-2.0, 0.5))
    LEAST_CONTRAST, LEAST_STEP = 0.02, 0.005  # shares of the range, added before the logarithm: of a plain surface there is none

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        level = np.asarray(pixels, np.float64) / 255.0
        found = [standard(cells(level, 4).mean((2, 4)), self.MEAN)]
        for scale, step in enumerate(self.STEP):
            if scale:
                level = cells(level, level.shape[1] // 2).mean((2, 4))
            luma = level @ np.array(LUMA)[:, None]
            rows = np.square(np.diff(luma, axis=1, append=luma[:, -1:]))
            columns = np.square(np.diff(luma, axis=2, append=luma[:, :, -1:]))
            found.append(standard(np.log(self.LEAST_CONTRAST + cells(level, 2).std((2, 4))), self.CONTRAST))
            found += [standard(np.log(self.LEAST_STEP + np.sqrt(cells(steps, 2).mean((2, 4)))), step) for steps in (rows, columns)]
        return np.concatenate(found, axis=1)


def standard(values: np.ndarray, about: tuple[float, float]) -> np.ndarray:
    """(b, ...) less a centre and over a spread, flat: (b, n)."""
    centre, spread = about
    return ((values - centre) / spread).reshape(len(values), -1)


def cells(images: np.ndarray, count: int) -> np.ndarray:
    """(b, h, w, c) -> (b, count, h / count, count, w / count, c): a grid of count x count cells."""
    b, h, w, c = images.shape
    return images.reshape(b, count, h // count, count, w // count, c)


class KerasFeatures:
    """A Keras model of yours: its output, averaged over pixels where it has any.

    With the Inception network and weights of the FID papers, and only then, FID and KID compare with papers';
    `keras.applications.InceptionV3` is another network.

    Args:
        model: a model from images (b, h, w, 3), or a `.keras` file, which must not hold code.
        values: what range the model wants: bytes (0 to 255), zero_to_one, minus_one_to_one.

    Raises:
        UserError: no such file, unknown values, or a model that does not take one size of RGB images.
    """

    def __init__(self, model: Any, values: str = "minus_one_to_one") -> None:
        import keras

        if values not in VALUES:
            raise UserError(f"values: {values!r} is not one of {', '.join(VALUES)}")
        self.low, self.high = VALUES[values]
        if isinstance(model, (str, Path)):
            path = Path(model)
            if not path.is_file():
                raise UserError(f"features: there is no file {path}; give a Keras model's .keras file")
            self.name, digest = path.name, hashlib.sha256(path.read_bytes())
            try:
                model = keras.models.load_model(path, compile=False)
            except Exception as error:  # Keras raises whatever a damaged file makes it stumble over
                raise UserError(f"features: {path} cannot be read as a Keras model ({str(error)[:200]}); give a .keras file") from error
        else:
            self.name, digest = model.name, hashlib.sha256()
            for weight in model.weights:
                digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(weight)).tobytes())
        self.version = f"sha256 {digest.hexdigest()[:16]}, values {values}"
        shape = tuple(model.input_shape) if isinstance(model.input_shape, tuple) else ()
        if len(shape) != 4 or None in shape[1:] or shape[-1] != 3:
            raise UserError(f"features: {self.name} takes {model.input_shape}, but must take (None, height, width, 3) of known sides")
        self.model, self.size = model, shape[1:3]

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        scaled = np.asarray(pixels, np.float32) / 255.0 * (self.high - self.low) + self.low
        features = np.asarray(self.model.predict_on_batch(scaled), np.float64)
        return features.mean(axis=tuple(range(1, features.ndim - 1))) if features.ndim > 2 else features


@dataclass
class Features:
    """Collects the features of one set, image by image, in batches of a fixed size.

    Args:
        extractor: what makes them.
        batch: images per call of it; the last call is filled up by repeating, so a model is compiled once.
    """

    extractor: Extractor
    batch: int = 32

    def __post_init__(self) -> None:
        self.waiting: list[np.ndarray] = []
        self.done: list[np.ndarray] = []

    def add(self, image: np.ndarray) -> None:
        """One image, as `to_pixels` takes it."""
        self.waiting.append(to_pixels(image, self.extractor.size))
        if len(self.waiting) == self.batch:
            self._extract()

    def all(self) -> np.ndarray:
        """(n, d) of all the images so far."""
        if self.waiting:
            self._extract()
        return np.concatenate(self.done) if self.done else np.zeros((0, 0))

    def _extract(self) -> None:
        real = len(self.waiting)
        full = np.stack(self.waiting + [self.waiting[-1]] * (self.batch - real))
        self.done.append(np.asarray(self.extractor(full), np.float64)[:real])
        self.waiting = []
