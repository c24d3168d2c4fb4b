"""Pictures of a run: sample grids and curves, as PNG files that appear whole. Needs no Keras."""

from unetkit.pictures.curves import curves
from unetkit.pictures.grid import grid

__all__ = ["curves", "grid"]
