"""16-bit PNG against Pillow, which reads grey exactly and the high byte of every colour."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from unetkit.data import png16


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(pixels, lines, interlaced=0, extra=b""):
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 16, png16.COLOUR_TYPE[channels], 0, 0, interlaced)
    return png16.SIGNATURE + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def filtered(pixels, filters):
    """Rows filtered as the specification defines it, byte by byte."""
    raw = pixels.astype(">u2").view(np.uint8).reshape(pixels.shape[0], -1).astype(int)
    step = 2 * pixels.shape[2]
    lines = bytearray()
    for y, kind in enumerate(filters):
        lines.append(kind)
        for x in range(raw.shape[1]):
            a = raw[y, x - step] if x >= step else 0
            b = raw[y - 1, x] if y else 0
            c = raw[y - 1, x - step] if y and x >= step else 0
            nearest = min((a, b, c), key=lambda value: abs(a + b - c - value))  # the first of equals, as Paeth wants it
            lines.append((raw[y, x] - (0, a, b, (a + b) // 2, nearest)[kind]) % 256)
    return bytes(lines)


def random_pixels(height, width, channels, seed=0):
    return np.random.default_rng(seed).integers(0, 65536, (height, width, channels)).astype(np.uint16)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (5, 9)])
def test_what_is_encoded_is_decoded(channels, size):
    pixels = random_pixels(*size, channels)
    assert np.array_equal(png16.decode(png16.encode(pixels)), pixels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pillow_reads_what_is_encoded(channels):
    pixels = random_pixels(6, 5, channels)
    read = np.asarray(Image.open(io.BytesIO(png16.encode(pixels))))
    if channels == 2:  # which Pillow opens as RGBA
        read = read[..., [0, 3]]
    assert np.array_equal(read.reshape(pixels.shape), pixels if channels == 1 else pixels >> 8)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("filters", [(0,) * 5, (1,) * 5, (2,) * 5, (3,) * 5, (4,) * 5, (4, 1, 3, 0, 2)])
def test_every_row_filter_is_undone(channels, filters):
    pixels = random_pixels(5, 4, channels)
    assert np.array_equal(png16.decode(png(pixels, filtered(pixels, filters))), pixels)


def test_pillows_own_filters_are_undone():
    rows, columns = np.mgrid[0:40, 0:30]
    pixels = (rows * 1500 + columns * 37 % 65536).astype(np.uint16)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    assert np.array_equal(png16.decode(file.getvalue())[..., 0], pixels)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (8, 8), (9, 13)])
def test_interlaced_files_are_read(size):
    pixels = random_pixels(*size, 3)
    lines = b"".join(
        filtered(part, [4] * part.shape[0]) for x, y, dx, dy in png16.PASSES if (part := np.ascontiguousarray(pixels[y::dy, x::dx])).size
    )
    data = png(pixels, lines, interlaced=1)
    assert np.array_equal(png16.decode(data), pixels)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), pixels >> 8)


def test_a_transparent_colour_becomes_alpha():
    pixels = np.array([[[1, 2, 3], [1, 2, 4]]], np.uint16)
    decoded = png16.decode(png(pixels, filtered(pixels, [0]), extra=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3))))
    assert decoded[0, :, 3].tolist() == [0, 65535]
    assert np.array_equal(decoded[..., :3], pixels)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_file_cut_short_is_an_error(keep):
    data = png16.encode(random_pixels(20, 20, 3))
    with pytest.raises((ValueError, struct.error)):
        png16.decode(data[: int(keep * len(data))])


def test_a_damaged_file_is_an_error():
    pixels = random_pixels(4, 4, 1)
    data = bytearray(png16.encode(pixels))
    data[-20] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        png16.decode(bytes(data))
    with pytest.raises(ValueError, match="truncated"):
        png16.decode(png(pixels, filtered(pixels, [0] * 4)[:-1]))
    with pytest.raises(ValueError, match="filter 9"):
        png16.decode(png(pixels, b"\x09" + filtered(pixels, [0] * 4)[1:]))


def test_a_stream_that_expands_too_far_is_read_no_further():
    pixels = random_pixels(2, 2, 1)
    assert np.array_equal(png16.decode(png(pixels, filtered(pixels, [0, 0]) + bytes(10_000_000))), pixels)
