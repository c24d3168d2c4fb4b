"""Work with a trained run: make pictures, measure it, export it. Keras is imported only when a run is opened."""

from unetkit.inference.borders import seams
from unetkit.inference.bundle import export
from unetkit.inference.drawing import draw
from unetkit.inference.evaluation import evaluate_run
from unetkit.inference.generating import generate
from unetkit.inference.opening import open_run
from unetkit.inference.tiled import Tiled

__all__ = ["Tiled", "draw", "evaluate_run", "export", "generate", "open_run", "seams"]
