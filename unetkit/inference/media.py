"""What a network works on, as files: pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from unetkit.data.images import list_images, read_image, write_image
from unetkit.data.tasks import enlarge


class Medium(Protocol):
    """How inputs of one kind are found and read, and outputs written."""

    word: str
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
        depth: bits per channel of what is written.
        factor: how many times larger an image is made before the network sees it, as its training did.
    """

    channels: int
    background: tuple[int, int, int] = (255, 255, 255)
    depth: int = 8
    factor: int = 1
    word = "images"
    suffix = ".png"

    def inputs(self, folder: Path) -> dict[str, Path]:
        return list_images(folder, "INPUT").images

    def read(self, path: Path) -> np.ndarray:
        return enlarge(read_image(path, self.channels, self.background), self.factor)

    def write(self, path: Path, array: np.ndarray, source: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(path, array, self.depth)
