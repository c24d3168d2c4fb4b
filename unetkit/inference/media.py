"""What a network works on, as files: pictures, or sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from unetkit.data.images import list_images, read_image, write_image
from unetkit.data.sounds import list_sounds, read_sound, write_sound
from unetkit.data.tasks import enlarge
from unetkit.errors import UserError


class Medium(Protocol):
    """How inputs of one kind are found and read, and outputs written."""

    word: str
    made: str
    suffix: str

    def inputs(self, folder: Path) -> dict[str, Path]:
        """Files below a folder, by their name in it."""
        ...

    def read(self, path: Path) -> np.ndarray:
        """A file as an array in [-1, 1], channels last. Raises UserError, naming the file, where it cannot be used."""
        ...

    def write(self, path: Path, array: np.ndarray, source: Path) -> None:
        """Writes what was made of `source`, in one piece."""
        ...


@dataclass(frozen=True)
class Pictures:
    """Image files, read as a recipe reads them.

    Args:
        channels: 1 grey, 3 RGB, 4 RGBA.
        background: 8-bit colour under transparent pixels.
        depth: bits per channel of what is written, 8 (None) or 16.
        factor: how many times larger an image is made before the network sees it, as its training did.
    """

    channels: int
    background: tuple[int, int, int] = (255, 255, 255)
    depth: int | None = None
    factor: int = 1
    word = "images"
    made = "picture"
    suffix = ".png"

    def __post_init__(self) -> None:
        if self.depth not in (None, 8, 16):
            raise UserError(f"depth: {self.depth} bits per channel cannot be written; 8 and 16 can")

    def inputs(self, folder: Path) -> dict[str, Path]:
        return list_images(folder, "INPUT").files

    def read(self, path: Path) -> np.ndarray:
        return enlarge(read_image(path, self.channels, self.background), self.factor)

    def write(self, path: Path, array: np.ndarray, source: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(path, array, self.depth or 8)


@dataclass(frozen=True)
class Sounds:
    """WAV files, read as a recipe reads them, and written at the rate that the network knows.

    Args:
        channels: of the network's input.
        rate: samples per second.
        channel: with one channel, which of a file's: their mean, or a number.
        depth: bits per sample of what is written: 8, 16 (None), 24 or 32, which are floating point.
    """

    channels: int
    rate: int
    channel: int | Literal["mean"] = "mean"
    depth: int | None = None
    word = "WAV files"
    made = "WAV file"
    suffix = ".wav"

    def __post_init__(self) -> None:
        if self.depth not in (None, 8, 16, 24, 32):
            raise UserError(f"depth: {self.depth} bits per sample cannot be written; 8, 16, 24 and 32 (floating point) can")

    def inputs(self, folder: Path) -> dict[str, Path]:
        return list_sounds(folder, "INPUT").files

    def read(self, path: Path) -> np.ndarray:
        return read_sound(path, self.rate, self.channels, self.channel)

    def write(self, path: Path, array: np.ndarray, source: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_sound(path, array, self.rate, self.depth or 16)


def sounds(channels: int, source: Mapping[str, Any], depth: int | None) -> Sounds:
    """The medium of a recipe's source of signals, or of what a bundle says of it: `rate` and `channel`."""
    if source.get("rate") is None:
        raise UserError("data.source: synthetic has no sound to learn from; train on sound, sound_pairs or tones")
    return Sounds(channels, source["rate"], source.get("channel", "mean"), depth)
