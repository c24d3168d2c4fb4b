"""Pictures of a run: sample grids, signals and curves, as PNG files that appear whole. Needs no Keras."""

from unetkit.pictures.curves import compare_curves, curves
from unetkit.pictures.grid import grid
from unetkit.pictures.signals import signals

__all__ = ["compare_curves", "curves", "grid", "signals"]
