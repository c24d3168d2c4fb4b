"""The section `data` of the recipe: every kind, its keys, their defaults and bounds. See `schema.py` for the conventions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from unetkit.recipe.declare import Tagged, key, section


@dataclass(frozen=True, kw_only=True)
class Emoji:
    """The built-in pairs: 1,486 outlines (input) and colour drawings (target), 64 x 64."""

    rank: ClassVar[int] = 2

    kind: Literal["emoji"] = "emoji"
    reverse: bool = key(False, "colour drawing in, outline out")


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Two folders; files with the same stem form a pair."""

    rank: ClassVar[int] = 2

    kind: Literal["pairs"] = "pairs"
    inputs: str = key(help="folder of input images")
    targets: str = key(help="folder of target images")
    unmatched: Literal["error", "skip"] = key("error", "a stem that only one folder has")


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One folder of images that hold both members side by side."""

    rank: ClassVar[int] = 2

    kind: Literal["side_by_side"] = "side_by_side"
    path: str = key(help="folder of images")
    input: Literal["left", "right"] = key("left", "which half is the input")


@dataclass(frozen=True, kw_only=True)
class Colorize:
    """Grey -> colour."""

    kind: Literal["colorize"] = "colorize"


@dataclass(frozen=True, kw_only=True)
class SuperResolve:
    """Low resolution, enlarged again -> high resolution."""

    kind: Literal["super_resolve"] = "super_resolve"
    factor: int = key(4, "how many times smaller the input is before it is enlarged again", least=2, most=16)


@dataclass(frozen=True, kw_only=True)
class Denoise:
    """Noise -> clean."""

    kind: Literal["denoise"] = "denoise"
    sigma: float = key(0.1, "standard deviation of the Gaussian noise, as a share of the full range", above=0.0, most=2.0)


@dataclass(frozen=True, kw_only=True)
class Inpaint:
    """Masked -> whole."""

    kind: Literal["inpaint"] = "inpaint"
    share: float = key(0.25, "side of the square hole as a share of the image's side", above=0.0, below=1.0)


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Noise from memory: no reading, no decoding. Training on it shows how fast the device could go with perfect input."""

    kind: Literal["synthetic"] = "synthetic"
    images: int = key(1024, "how many pairs", least=2)
    rank: Literal[1, 2] = key(2, "2: as images; 1: as signals")


Task = Annotated[Colorize | SuperResolve | Denoise | Inpaint, Tagged("kind")]


@dataclass(frozen=True, kw_only=True)
class Folder:
    """One folder of images; the task makes a pair of each."""

    rank: ClassVar[int] = 2

    kind: Literal["folder"] = "folder"
    path: str = key(help="folder of images")
    task: Task = key(help="what makes the input from an image")


SignalTask = Annotated[Denoise | Inpaint, Tagged("kind")]

Channel = int | Literal["mean"]


@dataclass(frozen=True, kw_only=True)
class Sound:
    """One folder of WAV files, cut into windows of `size` samples; the task makes a pair of each."""

    rank: ClassVar[int] = 1

    kind: Literal["sound"] = "sound"
    path: str = key(help="folder of WAV files")
    rate: int = key(help="samples per second that the network sees; files of another rate are resampled", least=1)
    channel: Channel = key("mean", "with one channel: the mean of a file's channels, or the number of one, from 0", least=0)
    task: SignalTask = key(help="what makes the input from a window")


@dataclass(frozen=True, kw_only=True)
class SoundPairs:
    """Two folders of WAV files; files with the same stem form a pair, cut into windows of `size` samples."""

    rank: ClassVar[int] = 1

    kind: Literal["sound_pairs"] = "sound_pairs"
    inputs: str = key(help="folder of input files")
    targets: str = key(help="folder of target files")
    rate: int = key(help="samples per second that the network sees; files of another rate are resampled", least=1)
    channel: Channel = key("mean", "with one channel: the mean of a file's channels, or the number of one, from 0", least=0)
    unmatched: Literal["error", "skip"] = key("error", "a stem that only one folder has")


@dataclass(frozen=True, kw_only=True)
class Tones:
    """Built-in signals: short tunes of decaying harmonic tones, one channel, computed when they are asked for."""

    rank: ClassVar[int] = 1

    kind: Literal["tones"] = "tones"
    count: int = key(1024, "how many tunes", least=2)
    rate: int = key(8000, "samples per second", least=1000)
    task: SignalTask = key(help="what makes the input from a tune")


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Random changes, the same for both members of a pair, each a pure function of (seed, sample number)."""

    flip: Literal["none", "horizontal", "vertical", "both"] = key("none", "mirror half of the samples (signals: horizontal, in time)")
    crop_margin: float = key(0.0, "resize this share larger, then cut a random window (0.1 = up to 10 %)", least=0.0, most=1.0)
    brightness: float = key(0.0, "largest shift, as a share of the full range", least=0.0, most=1.0)
    contrast: float = key(0.0, "largest change of the contrast factor", least=0.0, below=1.0)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Which samples are held out. Variants of one figure never sit on both sides."""

    validation: float = key(0.1, "share of the data held out for validation", least=0.0, below=1.0)
    limit: int | None = key(None, "use at most this many training samples (null: all)", least=1)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Where pairs of images or signals come from and how they become arrays of one static shape in [-1, 1]."""

    source: Annotated[Emoji | Folder | Pairs | SideBySide | Sound | SoundPairs | Synthetic | Tones, Tagged("kind")] = key(
        help="where the images or signals are"
    )
    size: int | tuple[int, int] = key(64, "training size in pixels: one side, or [height, width]; of a signal: samples", least=1)
    input_channels: int = key(3, "channels of the input: 1 grey, 3 RGB, 4 RGBA; of a signal: any number", least=1)
    target_channels: int = key(3, "channels of the target: 1 grey, 3 RGB, 4 RGBA; of a signal: any number", least=1)
    resize: Literal["stretch", "crop", "pad"] = key(
        "crop", "how an image of another size becomes `size`: stretch it, fill and crop the centre, or fit and pad"
    )
    background: tuple[int, int, int] = key((255, 255, 255), "8-bit colour under transparent pixels and in padding", least=0, most=255)
    augment: Augment = section(Augment)
    split: Split = section(Split)
    classes: tuple[str, ...] = key((), "names of the classes, each the folder below the source's in which its images lie")
    on_bad: Literal["error", "skip"] = key("error", "an unreadable file: stop and name it, or skip and list it")
    max_bad: float = key(0.05, "with on_bad: skip, stop above this share of unreadable files", least=0.0, most=1.0)
    cache: Literal["none", "memory"] = key("none", "keep decoded, resized images in memory (before augmentation)")
    workers: int = key(0, "reading threads (0: one per CPU core, at most 16)", least=0, most=64)
