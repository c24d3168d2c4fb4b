"""Sound for everyone: WAV files of any length, rate and number of channels to arrays in [-1, 1], whole or in windows."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Literal

import numpy as np

from unetkit.data.files import Listing, list_files
from unetkit.data.wav import BadSound, SoundHeader, read_frames, read_header, write_sound
from unetkit.errors import UserError

__all__ = ["BadSound", "list_sounds", "read_sound", "write_sound"]

EXTENSIONS = frozenset((".wav", ".wave"))
TAPS = 10  # half the length of SciPy's filter, in samples of the slower of the two rates


def list_sounds(folder: str | Path, key: str) -> Listing:
    """The WAV files of a folder; see `list_files`."""
    return list_files(folder, key, EXTENSIONS, "not named as WAV")


def read_sound(path: str | Path, rate: int, channels: int = 1, channel: int | Literal["mean"] = "mean") -> np.ndarray:
    """A whole WAV file as (w, channels) float32 in [-1, 1], at `rate` samples per second.

    Args:
        path: PCM of 8, 16, 24 or 32 bits, or floating point.
        rate: to which it is resampled where its own differs.
        channels: with 1, `channel` says which; with more, the file must have as many.
        channel: the mean of the file's channels, or the number of one, from 0.

    Raises:
        BadSound: a UserError that names the file and what is wrong with it.
    """
    header = read_header(path)
    require_fit(path, header, channels, channel)
    require_resampler(path, header, rate)
    return read_window(path, header, 0, length_at(header, rate), rate, channels, channel)


def require_fit(path: str | Path, header: SoundHeader, channels: int, channel: int | Literal["mean"]) -> None:
    """Raises BadSound where a file does not have the channels asked for."""
    if channels == 1 and channel != "mean" and channel >= header.channels:
        raise BadSound(path, f"is {header.mode} and has no channel {channel}; they are counted from 0")
    if channels not in (1, header.channels):
        raise BadSound(path, f"is {header.mode}; the network takes {channels} channels")


def require_resampler(path: str | Path, header: SoundHeader, rate: int) -> None:
    """Raises UserError where a file has to be resampled and nothing is installed that can."""
    if header.rate != rate and importlib.util.find_spec("scipy") is None:
        raise UserError(
            f"{path} has {header.rate:,} samples per second, not {rate:,}; to resample it, pip install 'unetkit[sound]' (SciPy)"
        )


def length_at(header: SoundHeader, rate: int) -> int:
    """Samples of a file at `rate`: its own number where that is its rate, else rounded up."""
    return -(-header.frames * rate // header.rate)


def read_window(
    path: str | Path, header: SoundHeader, start: int, count: int, rate: int, channels: int, channel: int | Literal["mean"]
) -> np.ndarray:
    """Samples `start` to `start + count` of a file as they are at `rate`, (count, channels) float32.

    Resampled is only what the window needs: the polyphase filter of `scipy.signal.resample_poly` looks `TAPS` samples of the
    slower rate to either side, so that the window is what it would be cut from the whole.
    """
    common = math.gcd(rate, header.rate)
    up, down = rate // common, header.rate // common
    if up == down:
        return _picked(read_frames(path, header, start, count), channels, channel)
    from scipy.signal import resample_poly

    around = math.ceil(TAPS * max(up, down) / (up * down)) + 1  # in blocks: `down` samples of the file are `up` at `rate`
    first, last = max(0, start // up - around), -(-(start + count) // up) + around
    begin, end = first * down, min(last * down, header.frames)
    frames = _picked(read_frames(path, header, begin, end - begin), channels, channel)
    made = resample_poly(frames.astype(np.float64), up, down, axis=0)[start - first * up :][:count]
    return made.astype(np.float32).clip(-1, 1)


def _picked(frames: np.ndarray, channels: int, channel: int | Literal["mean"]) -> np.ndarray:
    if channels > 1 or frames.shape[1] == 1:
        return frames
    return frames.mean(axis=1, keepdims=True) if channel == "mean" else frames[:, channel : channel + 1]
