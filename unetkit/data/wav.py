"""WAV files by the standard library alone: PCM of 8, 16, 24 and 32 bits, and floating-point numbers of 32 and 64.

The `wave` module of the standard library knows neither floating point nor (before Python 3.12) the extensible form that
24-bit files have, so the few bytes in front of the samples are read here. Compressed kinds are refused by name.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unetkit.data.files import BadFile
from unetkit.errors import UserError, WorkError
from unetkit.files import replacing

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
REFUSED = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "IMA ADPCM", 49: "GSM", 80: "MPEG", 85: "MP3", 255: "AAC"}
OTHERS = {
    b"RIFX": "a big-endian WAV",
    b"RF64": "a 64-bit WAV",
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"ID3\x03": "MP3",
    b"ID3\x04": "MP3",
    b"FORM": "AIFF",
}
STREAMED = (0, 0xFFFFFFFF)  # sizes that programs write which do not know them yet
DEPTHS = (8, 16, 24, 32)
MOST_BYTES = 2**32 - 64


class BadSound(BadFile):
    """A file that cannot be read as sound: which, and why."""


@dataclass(frozen=True, kw_only=True)
class SoundHeader:
    """What a WAV file says about itself.

    Attributes:
        kind: PCM or FLOAT.
        bits: of one sample as it is stored.
        rate: samples per second.
        offset: of the first sample, in bytes.
        frames: samples of each channel.
    """

    kind: int
    channels: int
    bits: int
    rate: int
    offset: int
    frames: int

    @property
    def format(self) -> str:
        """As `16-bit PCM at 8,000 Hz`."""
        return f"{self.bits}-bit {'PCM' if self.kind == PCM else 'float'} at {self.rate:,} Hz"

    @property
    def mode(self) -> str:
        """As `mono`."""
        return {1: "mono", 2: "stereo"}.get(self.channels, f"{self.channels} channels")


def read_header(path: str | Path) -> SoundHeader:
    """What a file holds, without its samples. Raises BadSound."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as stream:
            return _header(path, stream, size)
    except FileNotFoundError as error:
        raise BadSound(path, "a link to nothing" if Path(path).is_symlink() else "no such file") from error
    except PermissionError as error:
        raise BadSound(path, "no permission to read it") from error
    except OSError as error:
        raise BadSound(path, error.strerror or str(error)) from error


def _header(path: str | Path, stream, size: int) -> SoundHeader:
    start = stream.read(12)
    if not size:
        raise BadSound(path, "empty file (0 bytes)")
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        what = next((name for mark, name in OTHERS.items() if start.startswith(mark)), "not a WAV file")
        raise BadSound(path, f"{what}; save it as WAV with PCM or floating-point samples (ffmpeg -i FILE -c:a pcm_s16le NEW.wav)")
    told = None
    while len(chunk := stream.read(8)) == 8:
        name, length = chunk[:4], int.from_bytes(chunk[4:], "little")
        if name == b"data":
            if told is None:
                break
            return _placed(path, told, stream.tell(), length, size)
        if name == b"fmt ":
            told = _told(path, stream.read(length))
            stream.seek(length % 2, os.SEEK_CUR)
        else:
            stream.seek(length + length % 2, os.SEEK_CUR)
    raise BadSound(path, "damaged: it ends before its samples" if told else "damaged: it does not say what its samples are")


def _told(path: str | Path, form: bytes) -> tuple[int, int, int, int]:
    """(kind, channels, rate, bits) of a format chunk."""
    if len(form) < 16:
        raise BadSound(path, "damaged: it does not say what its samples are")
    kind, channels, rate, _, block, _ = struct.unpack("<HHIIHH", form[:16])
    if kind == EXTENSIBLE and len(form) >= 26:
        kind = int.from_bytes(form[24:26], "little")  # the first bytes of the subformat
    if kind not in (PCM, FLOAT):
        raise BadSound(path, f"holds {REFUSED.get(kind, f'samples of kind {kind}')}; save it with PCM or floating-point samples")
    if not channels or not rate or block % channels:
        raise BadSound(path, f"damaged: {channels} channels, {rate} samples per second, {block} bytes each")
    bits = 8 * block // channels  # those of the container: 12 bits in 16 lie in the upper ones
    if bits not in ((8, 16, 24, 32) if kind == PCM else (32, 64)):
        raise BadSound(path, f"holds {bits}-bit {'PCM' if kind == PCM else 'floating-point'} samples; 8, 16, 24, 32 and 32, 64 are read")
    return kind, channels, rate, bits


def _placed(path: str | Path, told: tuple[int, int, int, int], offset: int, length: int, size: int) -> SoundHeader:
    kind, channels, rate, bits = told
    there = size - offset
    if length in STREAMED:
        length = there
    if length > there:
        raise BadSound(path, f"truncated: {there:,} of {length:,} bytes of samples are there")
    frames = length // (channels * bits // 8)
    if not frames:
        raise BadSound(path, "holds no sound (0 samples)")
    return SoundHeader(kind=kind, channels=channels, bits=bits, rate=rate, offset=offset, frames=frames)


def read_frames(path: str | Path, header: SoundHeader, start: int = 0, count: int | None = None) -> np.ndarray:
    """Samples `start` to `start + count` (None: to the end) of every channel, (count, channels) float32 in [-1, 1].

    Floating-point samples beyond full scale are clipped.

    Raises:
        BadSound: the file has become shorter, or holds values that are no numbers.
    """
    count = header.frames - start if count is None else count
    block = header.channels * header.bits // 8
    try:
        with open(path, "rb") as stream:
            stream.seek(header.offset + start * block)
            raw = stream.read(count * block)
    except OSError as error:
        raise BadSound(path, error.strerror or str(error)) from error
    if len(raw) < count * block:
        raise BadSound(path, "truncated: it has become shorter than it was")
    values = _decoded(raw, header).reshape(count, header.channels)
    if header.kind == FLOAT:
        if not np.isfinite(values).all():
            raise BadSound(path, "holds values that are no numbers (NaN or infinite)")
        values = values.clip(-1, 1)
    return values


def _decoded(raw: bytes, header: SoundHeader) -> np.ndarray:
    if header.kind == FLOAT:
        return np.frombuffer(raw, f"<f{header.bits // 8}").astype(np.float32)
    if header.bits == 8:  # the only unsigned ones
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
    if header.bits == 24:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    return (np.frombuffer(raw, f"<i{header.bits // 8}") / 2.0 ** (header.bits - 1)).astype(np.float32)


def write_sound(path: str | Path, array: np.ndarray, rate: int, depth: int = 16) -> None:
    """Writes (w,) or (w, channels) in [-1, 1] as WAV: clipped, then rounded; 32 bits are floating point. It appears by rename.

    Args:
        path: ends in .wav.
        array: values; NaN is refused.
        rate: samples per second.
        depth: 8, 16, 24 or 32 bits per sample.

    Raises:
        UserError: an ending, depth or shape that cannot be written.
        WorkError: values that are no numbers, or more of them than a WAV file can hold.
    """
    path, array = Path(path), np.asarray(array)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise UserError(f"{path}: an array of shape {array.shape} is no signal; (w,) and (w, channels) are")
    if depth not in DEPTHS or path.suffix.lower() != ".wav":
        raise UserError(
            f"{path}: {depth} bits per sample cannot be written as {path.suffix or 'a name without ending'}; 8, 16, 24, 32 as .wav can"
        )
    if not np.isfinite(array).all():
        raise WorkError(f"{path}: the signal to be written holds values that are no numbers (NaN)")
    data = _encoded(array.astype(np.float64).clip(-1, 1), depth)
    if len(data) > MOST_BYTES:
        raise WorkError(f"{path}: {len(data) / 2**30:.1f} GiB do not fit a WAV file, which ends at 4; cut the signal")
    channels, block = array.shape[1], array.shape[1] * depth // 8
    form = struct.pack("<HHIIHH", FLOAT if depth == 32 else PCM, channels, rate, rate * block, block, depth)
    with replacing(path) as stream:
        stream.write(struct.pack("<4sI4s4sI", b"RIFF", 28 + len(form) - 16 + 8 + len(data) + len(data) % 2, b"WAVE", b"fmt ", len(form)))
        stream.write(form + struct.pack("<4sI", b"data", len(data)) + data + b"\0" * (len(data) % 2))


def _encoded(values: np.ndarray, depth: int) -> bytes:
    if depth == 32:
        return values.astype("<f4").tobytes()
    half = 2 ** (depth - 1)
    whole = np.rint(values * half).clip(-half, half - 1)
    if depth == 8:
        return (whole + 128).astype(np.uint8).tobytes()
    if depth == 16:
        return whole.astype("<i2").tobytes()
    return np.ascontiguousarray(whole.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3]).tobytes()
