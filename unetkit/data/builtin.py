"""The built-in pairs: outlines and colour drawings of 1,486 emoji, 64 x 64 (see emoji/NOTICE for origin and licence)."""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable

import numpy as np
from PIL import Image

from unetkit.data.decode import MODE

SIDE, COLUMNS = 64, 64

# A figure is what a drawing's name leaves without the words below, and with the other names of the same drawing in
# SAME. Words that change who is drawn, which way it faces, its colour, or the phase of the moon:
VARIANTS = {
    *("man", "woman", "person", "mx", "mrs", "mans", "womans", "mens", "womens"),
    *("left", "right", "up", "down", "leftwards", "rightwards", "facing"),
    *("black", "blue", "brown", "green", "grey", "orange", "pink", "purple", "red", "white", "yellow", "blonde"),
    *("new", "first", "last", "full", "quarter", "waxing", "waning", "crescent", "gibbous"),
}
# Different names whose outlines are the same drawing (correlation above 0.97, mirrored or not), or that name a figure
# and its man and woman. The bare man, woman and person leave no word at all: they are the figure "adult".
SAME = {
    name: figure
    for figure, names in {
        "adult": "hair bald beard curly-hair old older",
        "child": "boy girl",
        "with-crown": "prince princess",
        "claus": "santa-claus",
        "angry-face": "pouting-face",
        "mouse": "rat",
        "square": "large-square",
        "book": "closed-book",
        "chart": "chart-increasing chart-decreasing",
        "cross-mark": "multiply",
        "droplet": "drop-of-blood",
        "medal": "1st-place-medal 2nd-place-medal 3rd-place-medal",
        "star-of-david": "dotted-six-pointed-star",
        "speech-bubble": "speech-balloon",
        "banknote": "dollar-banknote euro-banknote pound-banknote yen-banknote",
    }.items()
    for name in names.split()
}


def figure(name: str) -> str:
    """The figure a drawing shows: `man-artist`, `woman-artist` and `artist` are one; `moon` and `moon-face` are two."""
    left = "-".join(word for word in name.split("-") if word not in VARIANTS) or "adult"
    return SAME.get(left, left)


def names() -> tuple[str, ...]:
    """The names of the pairs, sorted."""
    return tuple(json.loads(_file("names.json").read_text(encoding="utf-8")))


def outlines(channels: int) -> np.ndarray:
    """The outlines, (n, 64, 64, channels) uint8, black on white."""
    return _sheet("emoji_line_64.webp", channels)


def colours(channels: int) -> np.ndarray:
    """The colour drawings, (n, 64, 64, channels) uint8, on white."""
    return _sheet("emoji_color_64.webp", channels)


def _file(name: str) -> Traversable:
    return resources.files("unetkit.data") / "emoji" / name


def _sheet(name: str, channels: int) -> np.ndarray:
    with _file(name).open("rb") as file, Image.open(file) as image:
        sheet = np.asarray(image.convert(MODE[channels]))
    rows = sheet.shape[0] // SIDE
    cells = sheet.reshape(rows, SIDE, COLUMNS, SIDE, channels).swapaxes(1, 2).reshape(-1, SIDE, SIDE, channels)
    return cells[: len(names())]
