"""One image file -> a picture with the channels asked for. The format is told by the content, never by the name.

What is read: PNG, JPEG, WebP, BMP, TIFF and GIF (the first frame or page of each), in every mode: 1, L, LA, P, RGB,
RGBA, CMYK, 16-bit grey and 16-bit PNG. 16-bit colour TIFF is read with 8 bits, off by at most 1/257 of the range.
Floating-point, 32-bit and LAB files are refused by name: their range is not stated in the file. Colour profiles are
not applied; CMYK is converted by (1 - ink)(1 - black), and CMYK JPEGs are taken as inverted, as Adobe writes them.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import ExifTags, Image

from unetkit.data import png16
from unetkit.data.files import BadFile

# Pictures of up to 179 million pixels are read; above, Pillow raises an error. Its warning at half of that says nothing to mend.
warnings.simplefilter("ignore", Image.DecompressionBombWarning)

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")
ALPHA_MODES = ("LA", "PA", "RGBA", "RGBa")
MODE = {1: "L", 3: "RGB", 4: "RGBA"}
REFUSED = {"F": "floating-point numbers", "I": "signed or 32-bit integers", "LAB": "LAB colours"}
BITS, PHOTOMETRIC, PLANES = 258, 262, 284  # TIFF tags: BitsPerSample, PhotometricInterpretation, PlanarConfiguration
SPARE = 1.5
TIFF_DEFAULTS = {BITS: (1,), PHOTOMETRIC: 1, PLANES: 1}
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, which Pillow's mode L uses too
TURNED = {  # EXIF orientation -> what makes the picture upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

T = TypeVar("T")


class BadImage(BadFile):
    """A file that cannot be read as an image: which, and why."""


class Refused(ValueError):
    """An intact file of a kind whose range or layout cannot be told."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says about itself. `width` and `height` are upright, in pixels."""

    format: str
    mode: str
    width: int
    height: int
    bits: int  # per channel, as read
    stored_bits: int  # per channel, in the file
    orientation: int  # EXIF, 1 = upright


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A decoded file, not yet turned upright.

    `raw` is a Pillow image of 8 bits, or (h, w, c) float32 in 0..255 for 16 bits. It may be smaller than the size in
    `header`, by a factor that divides both sides (see `read_picture`).
    """

    header: Header
    raw: Image.Image | np.ndarray

    def planes(self, channels: int, background: tuple[int, int, int]) -> list[Image.Image]:
        """The upright picture with 1 (grey), 3 (RGB) or 4 (RGBA) channels.

        One Pillow image of mode L, RGB or RGBA; for a 16-bit file one of mode F per channel, in 0..255. Transparency is
        blended on `background` (8-bit RGB), or kept with 4 channels, where what has none is opaque.
        """
        if isinstance(self.raw, np.ndarray):
            deep = _deep_channels(self.raw, channels, background)
            planes = [Image.fromarray(np.ascontiguousarray(deep[..., i])) for i in range(channels)]
        else:
            planes = [_eight_bit_channels(self.raw, channels, background)]
        turn = TURNED.get(self.header.orientation)
        return planes if turn is None else [plane.transpose(turn) for plane in planes]


def read_header(path: str | Path) -> Header:
    """Format, mode and size, without decoding the pixels. Raises BadImage."""
    return _guarded(path, _header)


def read_picture(path: str | Path, detail: Callable[[int, int], float] | None = None) -> Picture:
    """Decodes a file. Raises BadImage, naming it.

    Args:
        path: the file.
        detail: source pixels per pixel that will be kept, as a function of (width, height) upright. A JPEG is then
            decoded at 1/2, 1/4 or 1/8 of its size by the decoder itself, where that divides both sides and at least
            `SPARE` pixels remain for each that is kept: resizing evens out the difference (docs/data.md has its size).
            None: always decode in full.
    """
    return _guarded(path, lambda image: _picture(image, path, detail))


def _guarded(path: str | Path, read: Callable[[Image.Image], T]) -> T:
    try:
        # A stream, not a name: given a name, Pillow maps some files into memory, and then garbles a grey TIFF that lies
        # on its side (12.3) and dies with the process's bus error where a mapped file shrinks.
        with open(path, "rb") as stream, Image.open(stream, formats=FORMATS) as image:
            return read(image)
    except (BadImage, MemoryError):
        raise
    except Exception as error:  # decoders raise whatever a damaged file makes them stumble over
        raise BadImage(path, _reason(Path(path), error)) from error


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "a link to nothing" if path.is_symlink() else "no such file"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, Image.DecompressionBombError):
        return f"more pixels than is safe to decode ({2 * Image.MAX_IMAGE_PIXELS:,}); shrink it first"
    if path.is_file() and path.stat().st_size == 0:
        return "empty file (0 bytes)"
    if isinstance(error, Image.UnidentifiedImageError):
        return f"not an image in any of the formats {', '.join(FORMATS)}"
    return f"damaged or of an unknown kind ({type(error).__name__}: {error})"


def _header(image: Image.Image) -> Header:
    if image.mode in REFUSED:
        raise Refused(f"holds {REFUSED[image.mode]}; save it with 8 or 16 bits in grey or RGB")
    bits = stored_bits = 16 if image.mode.startswith("I;16") else 8
    if image.format == "PNG" and str(image.tile[0][3]).endswith(";16B"):
        bits = stored_bits = 16
    elif image.format == "TIFF" and bits == 8:
        stored_bits = max(8, *_tag(image, BITS))
        if stored_bits > 8 and _tag(image, PLANES) == 2:  # of which Pillow keeps the low byte
            raise Refused("16-bit colour TIFF with one plane per channel; save it with interleaved channels")
    # Pillow turns a TIFF itself, and gives its size upright from the start
    orientation = 1 if image.format == "TIFF" else _orientation(image)
    width, height = image.size if orientation < 5 else image.size[::-1]
    return Header(
        format=image.format,
        mode=image.mode,
        width=width,
        height=height,
        bits=bits,
        stored_bits=stored_bits,
        orientation=orientation,
    )


def _tag(image: Image.Image, tag: int) -> Any:
    return image.tag_v2.get(tag, TIFF_DEFAULTS[tag])


def _orientation(image: Image.Image) -> int:
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except (SyntaxError, ValueError, KeyError, TypeError, struct.error):
        return 1  # a damaged EXIF block says nothing about the pixels
    return orientation if orientation in TURNED else 1


def _picture(image: Image.Image, path: str | Path, detail: Callable[[int, int], float] | None) -> Picture:
    header = _header(image)
    if header.bits == 16:
        return Picture(header=header, raw=_deep(image, path))
    if detail and header.format in ("JPEG", "MPO"):
        _shrink(image, detail(header.width, header.height))
    image.load()
    return Picture(header=header, raw=image)


def _shrink(image: Image.Image, pixels_per_kept: float) -> None:
    """Asks the JPEG decoder for a smaller picture, where the factor divides both sides so that no pixel moves."""
    width, height = image.size
    for shrink in (8, 4, 2):
        if pixels_per_kept >= SPARE * shrink and width % shrink == 0 and height % shrink == 0:
            image.draft(None, (width // shrink, height // shrink))
            return


def _deep(image: Image.Image, path: str | Path) -> np.ndarray:
    """(h, w, c) float32 in 0..255 of a 16-bit PNG or grey TIFF."""
    if image.format == "PNG":
        return png16.decode(Path(path).read_bytes()).astype(np.float32) / np.float32(257)
    top = 2 ** _tag(image, BITS)[0] - 1  # 12 bits come in this mode too
    grey = np.asarray(image).astype(np.float32)[..., None] * np.float32(255 / top)
    return 255 - grey if _tag(image, PHOTOMETRIC) == 0 else grey  # 0: white is zero; Pillow undoes that for 8 bits only


def _eight_bit_channels(image: Image.Image, channels: int, background: tuple[int, int, int]) -> Image.Image:
    if image.mode in ALPHA_MODES or "transparency" in image.info:
        image = image.convert("RGBA")
        if channels == 4:
            return image
        image = Image.alpha_composite(Image.new("RGBA", image.size, (*background, 255)), image)
    elif image.mode not in ("1", "L", "RGB"):
        image = image.convert("RGB")
    return image if image.mode == MODE[channels] else image.convert(MODE[channels])


def _deep_channels(pixels: np.ndarray, channels: int, background: tuple[int, int, int]) -> np.ndarray:
    """(h, w, 1..4) -> (h, w, channels), both float32 in 0..255."""
    present = pixels.shape[-1]
    colour = pixels[..., : present - 1 if present in (2, 4) else present]
    alpha = pixels[..., -1:] if present in (2, 4) else None
    if channels == 4:
        opaque = np.full((*pixels.shape[:2], 1), 255, np.float32)
        rgb = np.broadcast_to(colour, (*pixels.shape[:2], 3))
        return np.concatenate([rgb, opaque if alpha is None else alpha], axis=-1)
    if alpha is not None:
        share = alpha / 255
        colour = colour * share + np.asarray(background, np.float32) * (1 - share)
    if channels == 1 and colour.shape[-1] == 3:
        return colour @ np.asarray(LUMA, np.float32)[:, None]
    return np.broadcast_to(colour, (*colour.shape[:2], channels))
