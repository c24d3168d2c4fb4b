"""Signals as pictures: the waveform over its spectrogram, in columns with titles, as `input | output | truth`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unetkit import files

CELL_INCHES = (3.4, 1.9)
DPI = 80
LEAST_WINDOW, MOST_WINDOW = 16, 512  # samples of one column of the spectrogram
FLOOR_DB = -100.0  # what is quieter is drawn as this: full scale is 0


def signals(rows: Sequence[Sequence[np.ndarray]], titles: Sequence[str], path: str | Path) -> None:
    """Writes rows of signals as one PNG: each a waveform over its spectrogram, each column under its title.

    Args:
        rows: each with one signal per title, (w, c) in [-1, 1]; of several channels their mean is shown. A value that is no
            number shows as silence.
        titles: one for each column.
        path: the PNG file.

    Raises:
        ValueError: no rows, or a row whose length is not that of `titles`.
        OSError: the file cannot be written.
    """
    if not rows or any(len(row) != len(titles) for row in rows):
        raise ValueError(f"expected rows of {len(titles)} signals ({', '.join(titles)}), got rows of {[len(row) for row in rows]}")
    from matplotlib.figure import Figure  # the object interface: pyplot would leave state in the user's notebook

    width, height = CELL_INCHES[0] * len(titles), CELL_INCHES[1] * len(rows) + 0.3
    figure = Figure(figsize=(width, height), dpi=DPI)
    figure.subplots_adjust(0.01, 0.01, 0.99, 1 - 0.3 / height, wspace=0.03, hspace=0.03)
    cells = figure.subplots(2 * len(rows), len(titles), squeeze=False, gridspec_kw={"height_ratios": [1, 2] * len(rows)})
    for number, row in enumerate(rows):
        for column, signal in enumerate(row):
            wave = np.nan_to_num(np.asarray(signal, np.float32)).mean(axis=-1)
            above, below = cells[2 * number][column], cells[2 * number + 1][column]
            above.plot(wave, linewidth=0.4, color="black")
            above.set(xlim=(0, len(wave)), ylim=(-1, 1))
            below.imshow(spectrogram(wave), origin="lower", aspect="auto", vmin=FLOOR_DB, vmax=0, cmap="magma")
            for axes in (above, below):
                axes.set(xticks=[], yticks=[])
    for axes, title in zip(cells[0], titles, strict=True):
        axes.set_title(title, fontsize=10)
    with files.replacing(Path(path)) as stream:
        figure.savefig(stream, format="png")


def spectrogram(wave: np.ndarray) -> np.ndarray:
    """(w,) -> (frequencies, columns) in dB, 0 for a sine of full scale: Hann windows that overlap by half."""
    size = int(np.clip(2 ** round(np.log2(max(len(wave), 1)) / 2 + 1), LEAST_WINDOW, MOST_WINDOW))
    padded = np.pad(wave, (0, max(0, size - len(wave))))
    window = np.hanning(size + 1)[:-1]
    pieces = np.lib.stride_tricks.sliding_window_view(padded, size)[:: size // 2] * window
    levels = np.abs(np.fft.rfft(pieces, axis=1)) * 2 / window.sum()
    return 20 * np.log10(np.maximum(levels, 10 ** (FLOOR_DB / 20))).T
