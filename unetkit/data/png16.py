"""PNG files with 16 bits per channel: Pillow reads them, grey ones apart, with 8 bits, and cannot write them in colour.

The format is W3C's "Portable Network Graphics (PNG) Specification (Third Edition)"; section numbers below are its own.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # colour type -> channels (11.2.1); palettes (3) have at most 8 bits
COLOUR_TYPE = {channels: kind for kind, channels in CHANNELS.items()}
# Adam7 (8.1): first column, first row, column step, row step of each pass
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def decode(data: bytes) -> np.ndarray:
    """(h, w, c) uint16 of a 16-bit PNG file's bytes; c is 1 to 4, where 2 is grey and alpha.

    A transparent colour (tRNS) becomes an alpha channel. Raises ValueError where the file is damaged.
    """
    chunks = list(_chunks(data))
    first = dict(reversed(chunks))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", first[b"IHDR"])
    if depth != 16:
        raise ValueError(f"{depth} bits per channel where 16 were expected")
    channels = CHANNELS[kind]
    passes = PASSES if interlaced else ((0, 0, 1, 1),)
    shapes = [(-(-(height - y) // dy), -(-(width - x) // dx)) for x, y, dx, dy in passes]
    size = sum(h * (1 + 2 * channels * w) for h, w in shapes if w > 0 and h > 0)
    # max_length bounds what a hostile stream can expand to
    lines = zlib.decompressobj().decompress(b"".join(content for kind, content in chunks if kind == b"IDAT"), size)
    if len(lines) < size:
        raise ValueError(f"image data is truncated ({len(lines)} of {size} bytes)")
    pixels = np.empty((height, width, channels), np.uint16)
    at = 0
    for (x, y, dx, dy), (h, w) in zip(passes, shapes, strict=True):
        if w <= 0 or h <= 0:
            continue
        count = h * (1 + 2 * channels * w)
        rows = np.frombuffer(lines, np.uint8, count, at).reshape(h, -1)
        at += count
        filtered = rows[:, 1:].reshape(h, w, 2 * channels)
        pixels[y::dy, x::dx] = _unfilter(rows[:, 0], filtered).view(">u2").reshape(h, w, channels)
    if b"tRNS" in first and channels in (1, 3):
        key = np.frombuffer(first[b"tRNS"], ">u2")
        alpha = np.where((pixels == key).all(-1, keepdims=True), 0, 65535).astype(np.uint16)
        pixels = np.concatenate([pixels, alpha], axis=-1)
    return pixels


def encode(pixels: np.ndarray) -> bytes:
    """The PNG file's bytes of (h, w, c) uint16 pixels, c from 1 to 4."""
    height, width, channels = pixels.shape
    rows = pixels.astype(">u2").view(np.uint8).reshape(height, -1)
    lines = np.empty((height, 1 + rows.shape[1]), np.uint8)
    lines[:, 0] = 2  # filter "Up" (9.2): each byte less the one above it
    lines[:, 1:] = rows
    lines[1:, 1:] -= rows[:-1]
    header = struct.pack(">IIBBBBB", width, height, 16, COLOUR_TYPE[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return SIGNATURE + b"".join(struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in parts)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content of each chunk up to IEND (5.3)."""
    if not data.startswith(SIGNATURE):
        raise ValueError("not a PNG file")
    at, kind = len(SIGNATURE), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)  # struct.error where the file ends early
        content = data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(kind + content) != checksum:
            raise ValueError(f"checksum of chunk {kind!r} does not fit")
        yield kind, content
        at += 12 + length


def _unfilter(filters: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Undoes the row filters (9.2): filters (h,) and rows (h, w, bytes per pixel), uint8.

    A pixel may need those to the left, above, and above left of it, so that all pixels of one anti-diagonal can be
    undone at once: h + w steps in NumPy rather than h * w in Python.
    """
    if filters.max(initial=0) > 4:
        raise ValueError(f"unknown row filter {filters.max()}")
    h, w, depth = rows.shape
    # One row of zeros above and one column of zeros to the left stand for the missing neighbours; in this flat form
    # the pixels of a diagonal, one row down and one column left of each other, are `w` apart.
    padded = np.zeros((h + 1, w + 1, depth), np.uint8)
    padded[1:, 1:] = rows
    flat = padded.reshape(-1, depth)
    for diagonal in range(h + w - 1):
        top, bottom = max(0, diagonal - w + 1), min(h, diagonal + 1)  # rows on this diagonal
        first = (top + 1) * (w + 1) + (diagonal - top) + 1
        here = np.s_[first : first + (bottom - top - 1) * w + 1 : w]
        before = slice(here.start - 1, here.stop - 1, here.step)
        above = slice(here.start - w - 1, here.stop - w - 1, here.step)
        corner = slice(here.start - w - 2, here.stop - w - 2, here.step)
        a, b, c = (flat[s].astype(np.int16) for s in (before, above, corner))
        kind = filters[top:bottom, None]
        flat[here] += np.select([kind == 1, kind == 2, kind == 3, kind == 4], [a, b, (a + b) >> 1, _paeth(a, b, c)]).astype(np.uint8)
    return np.ascontiguousarray(padded[1:, 1:])


def _paeth(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Paeth's predictor (9.4): whichever of left, above and above left is nearest to a + b - c."""
    pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    return np.where((pa <= pb) & (pa <= pc), a, np.where(pb <= pc, b, c))
