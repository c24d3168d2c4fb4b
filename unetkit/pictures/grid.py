"""A grid of images with column titles, as `input | output | truth`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from unetkit import files

# All lengths in pixels of the picture.
WANTED_SIDE = 192  # small images are enlarged by a whole factor to about this
MOST_SIDE = 512  # large ones are reduced by a whole factor to at most this
GAP = 8
BLOCK_GAP = 32
TITLE_SIZES = range(22, 9, -1)  # the largest font whose titles fit their columns, else the smallest
ASPECT = 1.5  # wanted width by height, where long grids are folded into blocks side by side
PAGE, FRAME, INK = (255, 255, 255), (208, 208, 208), (32, 32, 32)


def grid(rows: Sequence[Sequence[np.ndarray]], titles: Sequence[str], path: str | Path) -> None:
    """Writes rows of images as one PNG, each column under its title.

    Values are clipped, then rounded to 8 bits. Small images are enlarged by a whole factor without smoothing, so that
    every pixel shows. Many rows are folded into blocks side by side.

    Args:
        rows: each with one image per title, (h, w, c) in [-1, 1]; c is 1 (grey), 3 (RGB) or 4 (RGBA, shown on white).
            A value that is no number shows as black.
        titles: one for each column.
        path: the PNG file.

    Raises:
        ValueError: no rows, or a row whose length is not that of `titles`.
        OSError: the file cannot be written.
    """
    if not rows or any(len(row) != len(titles) for row in rows):
        raise ValueError(f"expected rows of {len(titles)} images ({', '.join(titles)}), got rows of {[len(row) for row in rows]}")
    cells = [[to_picture(image) for image in row] for row in rows]
    font = _font(titles, max(cell.width for row in cells for cell in row))
    width = max(*(cell.width for row in cells for cell in row), *(math.ceil(font.getlength(title)) for title in titles))
    height = max(cell.height for row in cells for cell in row)
    head = math.ceil(font.size * 1.5)
    per_block = _rows_per_block(len(rows), height, len(titles) * width)
    blocks = math.ceil(len(rows) / per_block)
    block_width = len(titles) * (width + GAP) - GAP
    page_width = 2 * GAP + blocks * (block_width + BLOCK_GAP) - BLOCK_GAP
    page = Image.new("RGB", (page_width, head + per_block * (height + GAP) + GAP), PAGE)
    draw = ImageDraw.Draw(page)
    for number, row in enumerate(cells):
        block, place = divmod(number, per_block)
        for column, (title, cell) in enumerate(zip(titles, row, strict=True)):
            left = GAP + block * (block_width + BLOCK_GAP) + column * (width + GAP)
            if place == 0:
                draw.text((left + width // 2, (GAP + head) // 2), title, INK, font, anchor="mm")
            x, y = left + (width - cell.width) // 2, head + GAP + place * (height + GAP)
            page.paste(cell, (x, y))
            draw.rectangle((x - 1, y - 1, x + cell.width, y + cell.height), outline=FRAME)
    with files.replacing(Path(path)) as stream:
        page.save(stream, format="PNG")


def to_picture(image: np.ndarray) -> Image.Image:
    """(h, w, c) in [-1, 1] -> RGB at the size in which it is shown."""
    values = np.nan_to_num(np.clip(np.asarray(image, np.float32), -1, 1), nan=-1.0)
    pixels = np.rint((values + 1) * 127.5).astype(np.uint8)
    if pixels.shape[-1] == 4:
        color = Image.fromarray(pixels)
        picture = Image.alpha_composite(Image.new("RGBA", color.size, (*PAGE, 255)), color).convert("RGB")
    else:
        picture = Image.fromarray(np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3))))
    side = max(picture.size)
    if side > MOST_SIDE:
        return picture.reduce(math.ceil(side / MOST_SIDE))
    factor = max(1, round(WANTED_SIDE / side))
    return picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)


def _rows_per_block(rows: int, height: int, width: int) -> int:
    """How many rows stand below each other so that the whole comes near to the wanted aspect."""
    blocks = max(1, round(math.sqrt(rows * height * ASPECT / width)))
    return math.ceil(rows / blocks)


def _font(titles: Sequence[str], width: int) -> ImageFont.FreeTypeFont:
    for size in TITLE_SIZES:
        font = ImageFont.load_default(size)
        if all(font.getlength(title) <= width for title in titles):
            break
    return font
