"""The numbers of a run as curves over the images seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unetkit import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = tuple[list[float], list[float]]

# Panels in reading order: key of stats.jsonl -> title. Every other number of a training line is a part of the loss.
PANELS = {
    "loss": "training loss",
    "val_psnr": "validation PSNR (dB)",
    "val_snr": "validation SNR (dB)",
    "val_ssim": "validation SSIM",
    "val_l1": "validation L1 (share of the range)",
    "learning_rate": "learning rate",
    "images_per_second": "images per second",
}
FROM_ZERO = {"learning_rate", "images_per_second"}  # where the scale should not magnify small differences
NOT_PARTS = {"step", "images", "input_wait_share", *PANELS}
COLUMNS = 3
PANEL_INCHES = (4.2, 2.8)
DPI = 100


def curves(stats: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Writes loss, its parts, validation metrics, learning rate and speed as one PNG; nothing while there is nothing to show.

    Args:
        stats: the lines of stats.jsonl. Numbers that were not finite (null) leave a gap.
        path: the PNG file.

    Raises:
        OSError: the file cannot be written.
    """
    panels = {key: {key: points} for key in PANELS if (points := series(stats, key))[0]}
    if "loss" in panels:
        panels["loss"] |= {part: series(stats, part) for part in parts(stats)}
    _write(panels, max((line["images"] for line in stats), default=1), path)


def compare_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]], path: str | Path) -> None:
    """Writes the curves of several runs over each other, a panel for each number that any of them has; nothing where none has one.

    Args:
        runs: title -> lines of its stats.jsonl.
        path: the PNG file.

    Raises:
        OSError: the file cannot be written.
    """
    panels = {}
    for key in PANELS:
        lines = {title: points for title, stats in runs.items() if (points := series(stats, key))[0]}
        if lines:
            panels[key] = lines
    _write(panels, max((line["images"] for stats in runs.values() for line in stats), default=1), path)


def _write(panels: Mapping[str, Mapping[str, Points]], images: float, path: str | Path) -> None:
    """One PNG with a panel for each entry of `panels`: key of `PANELS` -> name of a line -> its points."""
    if not panels:
        return
    from matplotlib.figure import Figure  # the object interface: pyplot would leave state in the user's notebook

    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width, height = PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows
    figure = Figure(figsize=(width, height), dpi=DPI)
    # Margins by hand: working them out (layout="constrained") takes as long as all the drawing, in the midst of training.
    figure.subplots_adjust(0.6 / width, 0.5 / height, 1 - 0.2 / width, 1 - 0.35 / height, wspace=0.22, hspace=0.45)
    for axes, (key, lines) in zip(figure.subplots(rows, columns, squeeze=False).flat, panels.items(), strict=False):
        _draw(axes, PANELS[key], lines)
        axes.set_xlim(0, 1.02 * max(1, images))
        if key in FROM_ZERO:
            axes.set_ylim(bottom=0)
    for axes in figure.axes[len(panels) :]:
        axes.remove()
    with files.replacing(Path(path)) as stream:
        figure.savefig(stream, format="png")


def series(stats: Iterable[Mapping[str, Any]], key: str) -> Points:
    """The lines that have a value of `key`: (images seen, values); null is not a number."""
    lines = [line for line in stats if key in line]
    return [line["images"] for line in lines], [float("nan") if line[key] is None else line[key] for line in lines]


def parts(stats: Iterable[Mapping[str, Any]]) -> list[str]:
    """The parts of the loss, where it has more than one."""
    names = dict.fromkeys(key for line in stats if "loss" in line for key in line if key not in NOT_PARTS)
    return list(names) if len(names) > 1 else []


def _draw(axes: Axes, title: str, lines: Mapping[str, Points]) -> None:
    from matplotlib.ticker import EngFormatter

    for name, (images, values) in lines.items():
        # One point makes no line; few points are measurements, many are a curve.
        axes.plot(images, values, label=name, linewidth=1.2, marker="o" if len(images) <= 30 else None, markersize=3)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("images", fontsize=8)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    if len(lines) > 1:
        axes.legend(fontsize=7)
