"""`unetkit compare`: KID and FID between two folders of images."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from unetkit.data.images import list_images, read_image
from unetkit.errors import UserError
from unetkit.evaluate import KerasFeatures, compare
from unetkit.progress import Count
from unetkit.tables import as_text


def compare_folders(
    real: str | Path, made: str | Path, *, features: str | Path | None = None, values: str = "minus_one_to_one", progress: bool = False
) -> dict[str, Any]:
    """KID and FID between the images of two folders, subfolders included, read as RGB on white.

    Args:
        real: folder of true images.
        made: folder of made ones.
        features: a Keras model's file (None: the features that ship with unetkit).
        values: what range that model wants: bytes, zero_to_one or minus_one_to_one.
        progress: whether to show rate and time left.

    Returns:
        As `unetkit.evaluate.compare`.

    Raises:
        UserError: a folder that is not there, an image that cannot be read, too few of them, or a model that cannot be used.
    """
    files = [list(list_images(folder, name).files.values()) for folder, name in ((real, "REAL"), (made, "MADE"))]
    for folder, found in zip((real, made), files, strict=True):
        if not found:
            raise UserError(f"no images in {folder}")
    extractor = KerasFeatures(features, values) if features is not None else None
    with contextlib.closing(Count(sum(map(len, files)), progress)) as count:
        return compare(read_all(files[0], count, 0), read_all(files[1], count, len(files[0])), extractor)


def read_all(files: list[Path], count: Count, before: int) -> Iterator[np.ndarray]:
    """The images of the files, one at a time."""
    for number, file in enumerate(files, start=1):
        yield read_image(file, 3)
        count.done(before + number)


def table(figures: dict[str, Any]) -> str:
    """The figures of `compare` for the terminal."""
    of, images = figures["features"], figures["images"]
    made = Table(f"{images['real']:,} real and {images['made']:,} made images")
    for title in ("KID", "standard error", "FID"):
        made.add_column(title, justify="right")
    made.add_row(f"{figures['kid']:.5f}", f"{figures['kid_standard_error']:.5f}", f"{figures['fid']:.3f}")
    size = " x ".join(map(str, of["size"]))
    lines = [as_text(made), f"features: {of['name']}, version {of['version']}, {of['width']} numbers of {size} pixels"]
    return "\n".join(lines + [f"note: {warning}" for warning in figures["warnings"]])
